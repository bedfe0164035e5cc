"""Evidence: written whole, found by image, and only the last word of each level counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from builder.errors import UsageError
from builder.record.check import Check, Status
from builder.record.models import (
    Record,
    free_path,
    json_schema,
    passed,
    read_record,
    read_records,
    write_record,
)

ROOT = Path(__file__).parents[3]
OLD = {"record_version": 1, "cell": "cpu", "level": "2", "recipe": "tiny", "image": "r/cpu:cpu",
       "image_id": "sha256:1", "lock": "sha256:2", "labels": {}, "where": "cpu",
       "started": "2026-01-01T00:00:00Z", "seconds": 1.0, "phases": {"start": 1.0},
       "checks": [{"check": "boot", "status": "pass", "detail": "", "seconds": 0.0,
                   "request": "", "answer": ""}],
       "log": "/home/someone/.cache/sparkyard/logs/cpu-2.log", "diagnosis": [],
       "verdict": "pass", "gb10": False}


def a_record(status: Status = Status.PASS, started: str = "2026-01-01T00:00:00Z",
             level: str = "2", image_id: str = "sha256:1") -> Record:
    return Record(cell="cpu", level=level, recipe="tiny", image="r/cpu:cpu", image_id=image_id,
                  lock="sha256:2", labels={}, where="cpu", started=started, seconds=1.0, phases={},
                  checks=(Check(check="boot", status=status),), log="log")


def keep(folder: Path, record: Record) -> Path:
    """Write one record into a records folder."""
    return write_record(free_path(folder, record), record)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    path = keep(tmp_path, a_record())
    assert read_records(tmp_path) == [a_record()]
    said = json.loads(path.read_text())
    assert (said["verdict"], said["gb10"]) == ("pass", False)


def test_a_passed_image_has_passed(tmp_path: Path) -> None:
    keep(tmp_path, a_record())
    assert passed(tmp_path, "sha256:1")


def test_no_record_is_no_pass(tmp_path: Path) -> None:
    keep(tmp_path, a_record())
    assert not passed(tmp_path, "sha256:other")


def test_a_later_failure_takes_the_pass_back(tmp_path: Path) -> None:
    keep(tmp_path, a_record())
    keep(tmp_path, a_record(Status.FAIL, "2026-01-02T00:00:00Z"))
    assert not passed(tmp_path, "sha256:1")


def test_a_failure_on_another_level_counts(tmp_path: Path) -> None:
    keep(tmp_path, a_record())
    keep(tmp_path, a_record(Status.FAIL, level="1a"))
    assert not passed(tmp_path, "sha256:1")


def test_a_damaged_record_proves_nothing(tmp_path: Path) -> None:
    path = keep(tmp_path, a_record())
    path.write_text(path.read_text()[:40])
    assert not passed(tmp_path, "sha256:1")


def test_nothing_checked_is_no_pass() -> None:
    only = Check(check="vision", status=Status.NOT_APPLICABLE, detail="the model has no eyes")
    assert not a_record().model_copy(update={"checks": ()}).passed
    assert not a_record().model_copy(update={"checks": (only,)}).passed


def test_the_committed_schema_is_the_models() -> None:
    committed = json.loads((ROOT / "docs" / "record.schema.json").read_text(encoding="utf-8"))
    assert committed == json_schema(), (
        "renew it: python -c 'from builder import console, record; "
        "console.document(record.json_schema())' > docs/record.schema.json")


def test_a_record_is_of_the_published_schema() -> None:
    check = Draft202012Validator(json_schema())
    said = a_record().document()
    assert list(check.iter_errors(said)) == []
    assert list(check.iter_errors({**said, "where": "mars"})) != []
    assert list(check.iter_errors({key: said[key] for key in said if key != "checks"})) != []


def test_a_record_of_version_1_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cpu" / "old.json"
    path.parent.mkdir()
    path.write_text(json.dumps(OLD))
    record = read_record(path)
    assert (record.state, record.verdict, record.log) == ("finished", "pass", "logs/cpu-2.log")
    assert passed(tmp_path, "sha256:1")


@pytest.mark.parametrize(("text", "told"), [
    ('{"record_version": 3}', "its record_version is 3"),
    ("[]", "its record_version is None"),
    ('{"record_version": 2}', "is damaged"),
    ("{", "cannot be read"),
    ('{"record_version": 2, "seconds": NaN}', "no number of JSON: NaN"),
    ('{"record_version": 2, "phases": {"listen": Infinity}}', "no number of JSON: Infinity"),
    ('{"a":' * 100_000, "cannot be read")])
def test_what_is_no_record_is_refused_in_words(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=told):
        read_record(path)


def test_a_run_that_did_not_end_has_no_verdict() -> None:
    for state in ("running", "interrupted"):
        cut = a_record().model_copy(update={"state": state})
        assert (cut.verdict, cut.passed, cut.speaks) == ("none", False, False)
    assert a_record(Status.FAIL).model_copy(update={"state": "running"}).speaks


def test_a_run_that_was_cut_off_takes_no_pass_back(tmp_path: Path) -> None:
    keep(tmp_path, a_record())
    later = a_record(started="2026-01-02T00:00:00Z").model_copy(update={"state": "interrupted"})
    keep(tmp_path, later)
    assert passed(tmp_path, "sha256:1")
    keep(tmp_path, a_record(Status.FAIL, "2026-01-03T00:00:00Z").model_copy(
        update={"state": "interrupted"}))
    assert not passed(tmp_path, "sha256:1")


def test_runs_of_the_same_second_stand_in_order(tmp_path: Path) -> None:
    keep(tmp_path, a_record())
    keep(tmp_path, a_record(Status.FAIL))
    assert [record.passed for record in read_records(tmp_path)] == [True, False]
