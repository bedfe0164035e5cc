"""Evidence: written whole, found by image, and only the last word of each level counts."""

from __future__ import annotations

import json
from pathlib import Path

from builder.record import Record, passed, read_records, write_record
from builder.smoke.verdict import Check, Status


def a_record(status: Status = Status.PASS, started: str = "2026-01-01T00:00:00Z",
             level: str = "2", image_id: str = "sha256:1") -> Record:
    return Record(cell="cpu", level=level, recipe="tiny", image="r/cpu:cpu", image_id=image_id,
                  lock="sha256:2", labels={}, where="cpu", started=started, seconds=1.0, phases={},
                  checks=(Check(check="boot", status=status),), log="log")


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    path = write_record(tmp_path, a_record())
    assert read_records(tmp_path) == [a_record()]
    said = json.loads(path.read_text())
    assert (said["verdict"], said["gb10"]) == ("pass", False)


def test_a_passed_image_has_passed(tmp_path: Path) -> None:
    write_record(tmp_path, a_record())
    assert passed(tmp_path, "sha256:1")


def test_no_record_is_no_pass(tmp_path: Path) -> None:
    write_record(tmp_path, a_record())
    assert not passed(tmp_path, "sha256:other")


def test_a_later_failure_takes_the_pass_back(tmp_path: Path) -> None:
    write_record(tmp_path, a_record())
    write_record(tmp_path, a_record(Status.FAIL, "2026-01-02T00:00:00Z"))
    assert not passed(tmp_path, "sha256:1")


def test_a_failure_on_another_level_counts(tmp_path: Path) -> None:
    write_record(tmp_path, a_record())
    write_record(tmp_path, a_record(Status.FAIL, level="1a"))
    assert not passed(tmp_path, "sha256:1")


def test_a_damaged_record_proves_nothing(tmp_path: Path) -> None:
    path = write_record(tmp_path, a_record())
    path.write_text(path.read_text()[:40])
    assert not passed(tmp_path, "sha256:1")


def test_nothing_checked_is_no_pass() -> None:
    only = Check(check="vision", status=Status.NOT_APPLICABLE, detail="the model has no eyes")
    assert not a_record().model_copy(update={"checks": ()}).passed
    assert not a_record().model_copy(update={"checks": (only,)}).passed
