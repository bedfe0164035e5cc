"""One run from start to record: each check and each line is kept, and a failure gets its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builder.record.models import records_folder
from builder.record.writer import RecordWriter
from builder.smoke.record_start import start_record
from builder.smoke.run import perform
from tests.unit.diagnosis.test_matching import HEALTHY
from tests.unit.fake_openai import Fake
from tests.unit.smoke.test_server import OneEngine, a_run, fake

__all__ = ["fake"]  # the fixture
FULL = [*HEALTHY, "Maximum concurrency for 2,048 tokens per request: 48.00x"]
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 394.00 MiB."


@pytest.mark.parametrize(("lines", "verdict", "named"), [
    (FULL, "pass", ""),
    ([MEMORY, "EngineCore failed to start."], "fail", "not-enough-memory")])
def test_a_run_ends_in_a_record_and_a_log(fake: tuple[int, Fake], tmp_path: Path,
                                          capsys: pytest.CaptureFixture[str],
                                          lines: list[str], verdict: str, named: str) -> None:
    run = a_run(OneEngine(fake[0], lines))
    run = replace(run, workspace=replace(run.workspace, cache=tmp_path))
    writer = RecordWriter(records_folder(tmp_path), start_record(run))
    record = perform(run, writer)
    assert (record.state, record.verdict) == ("finished", verdict)
    assert named in str(record.diagnosis)
    assert bool(record.diagnosis) == bool(named)
    assert (tmp_path / record.log).read_text().splitlines()[:len(lines)] == lines
    told = capsys.readouterr().err
    assert "smoke cpu, level 2" in told
    assert all(f"{check.status.value:5} {check.check}" in told for check in record.checks)


def test_what_a_model_answers_cannot_drive_the_terminal(
        fake: tuple[int, Fake], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port, server = fake
    server.fault = lambda message, body: message.update(content="\x1b]0;owned\x07 \x1b[2J Paris")
    run = a_run(OneEngine(port, list(HEALTHY)))
    run = replace(run, workspace=replace(run.workspace, cache=tmp_path))
    perform(run, RecordWriter(records_folder(tmp_path), start_record(run)))
    assert not set("\x1b\x07") & set(capsys.readouterr().err)
