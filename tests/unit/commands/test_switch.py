"""``sparkyard switch`` as a command: what serves at its end decides the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder import cli
from builder.commands import switch as command
from builder.serve.boot import Outcome
from builder.serve.servers import Server, survey
from builder.serve.start import begin, create
from builder.serve.switch import Switched
from tests.unit.played_servers import Played, launch

MATRIX = str(Path(__file__).parents[3] / "matrix.toml")


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    engine = Played(tmp_path)
    monkeypatch.setattr(command.Engine, "connect", lambda: engine.engine)
    monkeypatch.setattr(command, "prepare", lambda *_: launch(tmp_path, "tiny-gemma4-moe"))
    return engine


def run() -> int:
    return cli.run(["--matrix", MATRIX, "switch", "tiny-gemma4-moe"])


def old(played: Played) -> Server:
    return begin(played.engine, launch(played.folder))


@pytest.mark.parametrize(("ready", "back", "code", "told"), [
    (True, None, 0, ""), (False, Outcome(), 1, "tiny-gemma4 is back and answers"),
    (False, Outcome("it died, too"), 1, "no server answers now")])
def test_the_end_of_a_switch(
        played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        *, ready: bool, back: Outcome | None, code: int, told: str) -> None:
    server = old(played)
    serving = server if ready or (back and back.ready) else None
    monkeypatch.setattr(command, "switch", lambda *_: Switched(
        Outcome() if ready else Outcome("it died"), serving, back))
    assert run() == code
    said = capsys.readouterr()
    assert told in said.err
    assert bool(said.out) is bool(serving)


def test_ctrl_c_says_how_to_go_on_and_how_to_go_back(
        played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    server = old(played)

    def switch(*_: object) -> Switched:
        create(played.engine, launch(played.folder, "tiny-gemma4-moe").replacing(server.id))
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "switch", switch)
    assert run() == 130
    said = capsys.readouterr().err
    assert "Go on: `./nox -s switch -- tiny-gemma4-moe`" in said
    assert "go back: `./nox -s switch -- tiny-gemma4`" in said
    assert survey(played.engine).switch
