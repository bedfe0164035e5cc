"""A record that grows: valid at every moment, and it says how the run ended."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from builder.errors import DiskError, EngineError, UsageError
from builder.record import models as record
from builder.record.alive import this_process
from builder.record.check import Check, Status
from builder.record.models import KnownFailure
from builder.record.reader import read_record
from builder.record.writer import BY_USER, RecordWriter, interruptions_recorded
from tests.unit.bench_results import a_bench, a_series
from tests.unit.record.test_models import a_record

KNOWN = KnownFailure(name="F1", cause="x")


def a_writer(folder: Path) -> RecordWriter:
    ticks = iter(range(100))
    return RecordWriter(folder, a_record().model_copy(update={"checks": ()}),
                        clock=lambda: float(next(ticks)))


def check(name: str, status: Status = Status.PASS) -> Check:
    return Check(check=name, status=status)


def test_each_check_is_on_disk_at_once(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    assert (read_record(writer.path).state, read_record(writer.path).checks) == ("running", ())
    for number in range(3):
        writer.add(check(f"c{number}"), phases={"start": float(number)})
        there = read_record(writer.path)
        assert [one.check for one in there.checks] == [f"c{n}" for n in range(number + 1)]
        assert (there.state, there.phases) == ("running", {"start": float(number)})
    assert there.verdict == "none"


def test_the_end_is_said(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    writer.add(check("boot"))
    assert writer.finish(diagnosis=(KNOWN,)) == read_record(writer.path)
    there = read_record(writer.path)
    assert (there.state, there.verdict, there.diagnosis) == ("finished", "pass", (KNOWN,))
    assert there.seconds == 3.0


@pytest.mark.parametrize(("error", "said"), [
    (KeyboardInterrupt(), BY_USER),
    (EngineError("no Docker engine answers\ndial unix /home/me/docker.sock", where="/home/me"),
     "no Docker engine answers"),
    (EngineError("copying /home/me/models/tiny into a container failed"),
     "copying tiny into a container failed"),
    (EngineError("starting 127.0.0.1:5000/sparkyard/cpu:cpu failed"),
     "starting 127.0.0.1:5000/sparkyard/cpu:cpu failed"),
    (KeyError("/home/me"), "an internal error of Sparkyard (KeyError)")])
def test_what_ends_a_run_is_said_without_a_path(tmp_path: Path, error: BaseException,
                                               said: str) -> None:
    writer = a_writer(tmp_path)
    writer.add(check("boot"))
    with pytest.raises(type(error)), interruptions_recorded(writer):
        raise error
    there = read_record(writer.path)
    assert (there.state, there.reason, len(there.checks)) == ("interrupted", said, 1)


def test_a_run_that_ends_well_is_left_alone(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    with interruptions_recorded(writer):
        writer.finish()
    assert (read_record(writer.path).state, read_record(writer.path).reason) == ("finished", "")


def test_a_full_disk_ends_the_run_and_leaves_the_last_record(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    writer = a_writer(tmp_path)
    writer.add(check("boot"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(record, "write_text", full)
    with (pytest.raises(DiskError, match="while the record was written"),
          interruptions_recorded(writer)):
        writer.add(check("text"))
    assert [one.check for one in read_record(writer.path).checks] == ["boot"]
    assert "ends at the last check that could be written" in capsys.readouterr().err


def test_a_folder_that_cannot_be_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="the cache folder cannot be written"):
        a_writer(tmp_path / "file")


def test_two_runs_of_one_second_do_not_share_a_file_or_a_log(tmp_path: Path) -> None:
    one, other = a_writer(tmp_path), a_writer(tmp_path)
    assert one.path != other.path
    assert one.record.log != other.record.log
    assert not Path(one.record.log).is_absolute()


def test_what_a_check_saw_names_no_folder_of_the_user(tmp_path: Path) -> None:
    writer = a_writer(tmp_path / "cache" / "records")
    seen = f"{tmp_path}/cache/tools/python and {Path.home()}/x and /models/tiny ended"
    writer.add(check("llama-benchy").model_copy(update={"detail": seen}))
    assert writer.record.checks[0].detail == "CACHE/tools/python and ~/x and /models/tiny ended"


def test_no_secret_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghij")
    labels = {"vendor.api_key": "label-secret", "org.sparkyard.cell": "cpu"}
    writer = RecordWriter(tmp_path, a_record().model_copy(update={
        "image": "http://me:url-secret@host/x", "labels": labels}))
    writer.add(check("text").model_copy(update={
        "detail": "GET http://me:url-secret@host failed", "answer": "hf_abcdefghij"}),
        metrics={"vllm:x{a=\"hf_abcdefghij\"}": 1.0})
    writer.update(bench=a_bench([a_series(1.0, 1.1)], environment={
        "HF_TOKEN": "another", "A": "1"}))
    record = writer.finish(diagnosis=(KNOWN.model_copy(update={"seen": "hf_abcdefghij"}),))
    text = writer.path.read_text()
    assert not [secret for secret in ("hf_abcdefghij", "url-secret", "label-secret", "another")
                if secret in text or secret in str(record)]
    assert record.labels["org.sparkyard.cell"] == "cpu"
    assert record.checks[-1].status is Status.PASS
    assert record.bench
    assert record.bench.conditions.environment == {"HF_TOKEN": "***", "A": "1"}


def test_its_process_is_named_while_it_runs(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    assert read_record(writer.path).process == this_process()
    assert writer.finish().process == ""
    cut_off = a_writer(tmp_path)
    cut_off.interrupt("the engine")
    assert read_record(cut_off.path).process == ""
