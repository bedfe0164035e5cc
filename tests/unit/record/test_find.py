"""How a record that says it is running is shown."""

from __future__ import annotations

from pathlib import Path

from report_records import full_record

from builder.record.alive import BOOT
from builder.record.find import as_ended


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
