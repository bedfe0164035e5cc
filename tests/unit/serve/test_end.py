"""A server stopped: its container, its memory, and who still holds some."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.serve import memory
from builder.serve.end import stop
from builder.serve.servers import survey
from tests.unit.played_servers import Played
from tests.unit.serve.test_boot import started


def test_it_ends_and_is_removed_or_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    played = Played(tmp_path)
    server = started(played, 1)
    stop(played.engine, server, remove=False)
    assert played.boxes() == {"tiny-gemma4": "exited"}
    stop(played.engine, survey(played.engine).servers[0], remove=True)
    assert played.boxes() == {}
    assert capsys.readouterr().err.count("stopping") == 1, "one that has ended is only removed"


def test_a_holder_is_named_and_the_stop_is_done(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    played = Played(tmp_path)
    monkeypatch.setattr(memory, "await_free", lambda *_: ("process 7 (VLLM)",))
    stop(played.engine, started(played, 1), remove=True)
    assert "still held: process 7 (VLLM)" in capsys.readouterr().err
    assert played.boxes() == {}


def test_one_that_somebody_else_removed_is_no_error(tmp_path: Path) -> None:
    played = Played(tmp_path)
    server = started(played, 1)
    played.change(boxes={})
    stop(played.engine, server, remove=True)
