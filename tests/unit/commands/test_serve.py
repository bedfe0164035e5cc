"""``sparkyard serve`` as a command: its end, and what Ctrl-C leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builder import cli
from builder.commands import serve as command
from builder.serve.boot import Outcome
from builder.serve.start import begin
from tests.unit.played_servers import Played, launch

MATRIX = str(Path(__file__).parents[3] / "matrix.toml")


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    engine = Played(tmp_path)
    monkeypatch.setattr(command.Engine, "connect", lambda: engine.engine)
    monkeypatch.setattr(command, "prepare", lambda *_: launch(tmp_path))
    return engine


def run() -> int:
    return cli.run(["--matrix", MATRIX, "serve", "tiny-gemma4"])


def test_a_ready_server_is_told_on_standard_output(
        played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    def serve(*_: object) -> Outcome:
        begin(played.engine, launch(played.folder))
        return Outcome()

    monkeypatch.setattr(command, "serve", serve)
    assert run() == 0
    assert "answers at http://127.0.0.1:8000/v1" in capsys.readouterr().out


def test_one_that_failed_is_a_negative_verdict(
        played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    monkeypatch.setattr(command, "serve", lambda *_: Outcome("it died", Path("/x.log"), ("known",)))
    assert run() == 1
    said = capsys.readouterr()
    assert said.out == ""
    for part in ("did not become ready: it died", "known", "log: /x.log"):
        assert part in said.err


@pytest.mark.parametrize("started", [True, False])
def test_ctrl_c_detaches_and_never_stops(
        played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        *, started: bool) -> None:
    def serve(*_: object) -> Outcome:
        if started:
            begin(played.engine, launch(played.folder))
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "serve", serve)
    assert run() == 130
    assert ("detached: tiny-gemma4 goes on" in capsys.readouterr().err) is started
    assert played.boxes() == ({"tiny-gemma4": "running"} if started else {})
