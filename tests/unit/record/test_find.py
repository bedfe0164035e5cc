"""Which record is meant, and how one that says it is running is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_records import full_record

from builder.errors import UsageError
from builder.record.alive import BOOT
from builder.record.find import as_ended, record_path


def no_processes(proc: Path) -> Path:
    (proc / BOOT).parent.mkdir(parents=True)
    (proc / BOOT).write_text("7f2c\n")
    return proc


def test_a_run_whose_process_is_gone_was_interrupted(tmp_path: Path) -> None:
    shown = as_ended(full_record(state="running", process="0123"), no_processes(tmp_path))
    assert shown.state == "interrupted"
    assert shown.reason.startswith("its process no longer exists; it last wrote")


def test_a_record_of_an_earlier_version_says_why_it_counts_as_interrupted(tmp_path: Path) -> None:
    shown = as_ended(full_record(state="running"), no_processes(tmp_path))
    assert shown.state == "interrupted"
    assert shown.reason.startswith("it does not name its process")


def test_where_the_system_does_not_tell_it_stays_running(tmp_path: Path) -> None:
    record = full_record(state="running", process="0123")
    assert as_ended(record, tmp_path / "none") is record


@pytest.mark.parametrize(("name", "problem"), [
    ("{}/nothing", "there is no such file"), ("{}/nothing.json", "there is no such file"),
    ("../nothing", "there is no such file"), ("gone.json", "there is no such file"),
    ("{}", "this is a folder, and not the file of a record")])
def test_a_path_that_is_no_record_is_named_itself(name: str, problem: str, tmp_path: Path) -> None:
    """The folder of the records was named, where the path did not point."""
    named = name.format(tmp_path)
    with pytest.raises(UsageError) as caught:
        record_path(tmp_path / "records", named)
    assert (caught.value.what, caught.value.where) == (problem, named)


@pytest.mark.parametrize("name", ["nothing", "cpu/2026", "x" * 5000])
def test_a_name_that_no_record_has_is_looked_for_among_the_records(
        name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no record matches") as caught:
        record_path(tmp_path / "records", name)
    assert caught.value.where == str(tmp_path / "records")
