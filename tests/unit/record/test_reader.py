"""Reading records: only a whole, unaltered record that does not contradict itself counts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.errors import UsageError
from builder.limits import RECORD_BYTES
from builder.record.check import Status
from builder.record.models import Record, digest_of
from builder.record.reader import (
    MAX_DEPTH,
    MAX_VALUES,
    image_passed,
    parse_json,
    read_record,
    read_records,
    record_of,
)
from builder.record.writer import RecordWriter
from tests.unit.record.test_models import a_record, keep

EXAMPLES = int(os.environ.get("SPARKYARD_FUZZ_EXAMPLES", "100"))


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    path = keep(tmp_path, a_record())
    assert read_records(tmp_path) == [a_record()]
    said = json.loads(path.read_text())
    assert (said["verdict"], said["gb10"]) == ("pass", False)


def test_a_passed_image_has_image_passed(tmp_path: Path) -> None:
    keep(tmp_path, a_record())
    assert image_passed(tmp_path, "sha256:1")


def test_no_record_is_no_pass(tmp_path: Path) -> None:
    keep(tmp_path, a_record())
    assert not image_passed(tmp_path, "sha256:other")


def test_a_later_failure_takes_the_pass_back(tmp_path: Path) -> None:
    keep(tmp_path, a_record())
    keep(tmp_path, a_record(Status.FAIL, "2026-01-02T00:00:00Z"))
    assert not image_passed(tmp_path, "sha256:1")


@pytest.mark.parametrize(("first", "second"), [
    ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"),
    ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")], ids=["a day back", "a day forth"])
def test_the_last_run_counts_whatever_the_clock_did_between(tmp_path: Path, first: str,
                                                            second: str) -> None:
    RecordWriter(tmp_path, a_record(started=first)).finish()
    assert image_passed(tmp_path, "sha256:1")
    for status in (*12 * (Status.FAIL,), Status.PASS, Status.FAIL):
        RecordWriter(tmp_path, a_record(status, second)).finish()
        assert image_passed(tmp_path, "sha256:1") == (status is Status.PASS)


def test_a_failure_on_another_level_counts(tmp_path: Path) -> None:
    keep(tmp_path, a_record())
    keep(tmp_path, a_record(Status.FAIL, level="1a"))
    assert not image_passed(tmp_path, "sha256:1")


def test_a_damaged_record_proves_nothing(tmp_path: Path) -> None:
    path = keep(tmp_path, a_record())
    path.write_text(path.read_text()[:40])
    assert not image_passed(tmp_path, "sha256:1")


def test_a_run_that_was_cut_off_takes_no_pass_back(tmp_path: Path) -> None:
    keep(tmp_path, a_record())
    later = a_record(started="2026-01-02T00:00:00Z").model_copy(update={"state": "interrupted"})
    keep(tmp_path, later)
    assert image_passed(tmp_path, "sha256:1")
    keep(tmp_path, a_record(Status.FAIL, "2026-01-03T00:00:00Z").model_copy(
        update={"state": "interrupted"}))
    assert not image_passed(tmp_path, "sha256:1")


def test_runs_of_the_same_second_stand_in_order(tmp_path: Path) -> None:
    keep(tmp_path, a_record())
    keep(tmp_path, a_record(Status.FAIL))
    assert [record.passed for record in read_records(tmp_path)] == [True, False]


def test_a_record_that_does_not_count_is_named(tmp_path: Path,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    keep(tmp_path, a_record())
    path = keep(tmp_path, a_record(Status.FAIL))
    path.write_text("{")
    assert len(read_records(tmp_path)) == 1
    said = capsys.readouterr().err
    assert "1 of 2 records are not counted" in said
    assert path.name in said.replace("\n", "")


def changed(**changes: Any) -> dict[str, Any]:
    return {**a_record().document(), **changes}


def signed(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the digest that it would need: a forger can do that, too."""
    body = {key: value for key, value in document.items() if key != "digest"}
    return {**body, "digest": digest_of(body)}


@pytest.mark.parametrize("changes", [
    {"seconds": 2.0}, {"image_id": "sha256:3"}, {"lock": "sha256:3"}, {"recipe_digest": "x"},
    {"labels": {"a": "b"}}, {"verdict": "fail"}, {"where": "gb10"}, {"digest": "sha256:0"},
    {"digest": None}, {"checks": [{"check": "boot", "status": "pass", "answer": "other"}]}])
def test_an_altered_record_is_refused(changes: dict[str, Any]) -> None:
    assert record_of(changed(), "x") == a_record()
    with pytest.raises(UsageError, match="was altered after it was written"):
        record_of(changed(**changes), "x")


@pytest.mark.parametrize(("changes", "told"), [
    ({"where": "gb10"}, "it says 'gb10', and the rest of it says 'cpu'"),
    ({"gb10": True}, "it says True, and the rest of it says False"),
    ({"verdict": "fail"}, "it says 'fail', and the rest of it says 'pass'"),
    ({"state": "interrupted"}, "it says 'pass', and the rest of it says 'none'")])
def test_a_record_that_contradicts_itself_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match="contradicts itself") as error:
        record_of(signed(changed(**changes)), "x")
    assert told in error.value.what


def nested(depth: int) -> str:
    return '{"a": ' * depth + "1" + "}" * depth


@pytest.mark.parametrize(("text", "told"), [
    ('{"record_version": 2}', "its record_version is 2, and 3 is needed"),
    ('{"record_version": 4}', "its record_version is 4"),
    ('{"record_version": true}', "its record_version is True"),
    ('{"record_version": "\\u001b[2J"}', "its record_version is"),
    ("[]", "its record_version is None"),
    ('{"record_version": 3}', "is damaged"),
    ("{", "cannot be read"),
    ('{"record_version": 3, "seconds": NaN}', "not a finite number: NaN"),
    ('{"record_version": 3, "phases": {"listen": Infinity}}', "not a finite number: Infinity"),
    ('{"record_version": 3, "seconds": 1e400}', "not a finite number: 1e400"),
    ('{"record_version": 3, "seconds": ' + "9" * 5000 + "}", "cannot be read"),
    ('{"record_version": 3, "record_version": 3}', "occurs twice"),
    ('{"a":' * 100_000, "cannot be read"),
    (nested(MAX_DEPTH + 1), "levels deep"),
    ("[" + "1," * MAX_VALUES + "1]", "holds more than")])
def test_what_is_not_a_record_is_refused_in_words(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=told) as error:
        read_record(path)
    assert str(path) in error.value.where
    assert error.value.what.isprintable()


def test_a_huge_file_and_a_pipe_are_refused_unread(tmp_path: Path) -> None:
    huge, pipe = tmp_path / "huge.json", tmp_path / "pipe.json"
    with huge.open("wb") as handle:
        handle.truncate(RECORD_BYTES + 1)
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="larger than"):
        read_record(huge)
    with pytest.raises(UsageError, match="must be a regular file"):
        read_record(pipe)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20)
FIELDS = st.sampled_from(sorted(a_record().document()))


@settings(max_examples=EXAMPLES)
@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    try:
        parse_json(data)
    except ValueError:
        return


@settings(max_examples=EXAMPLES)
@given(st.dictionaries(FIELDS | st.text(max_size=5), JSON, max_size=4), st.booleans())
def test_no_change_of_a_record_breaks_the_reader(changes: dict[str, Any], forged: bool) -> None:
    """It is read and writes itself as it was read, or it is refused with words."""
    document = changed(**changes)
    try:
        document = parse_json(json.dumps(document).encode())
        record = record_of(signed(document) if forged else document, "x")
    except (UsageError, ValueError):
        return
    assert json.dumps(record.document())
    assert record.where != "gb10" or record.gpus


@settings(max_examples=EXAMPLES)
@given(st.text(), st.text(), st.floats(min_value=0, allow_infinity=False))
def test_every_record_comes_back(answer: str, key: str, seconds: float) -> None:
    record = Record.model_validate(changed(
        checks=[{"check": "x", "status": "pass", "answer": answer}], phases={key: seconds},
        seconds=seconds))
    assert record_of(parse_json(json.dumps(record.document()).encode()), "x") == record
