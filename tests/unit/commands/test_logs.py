"""``sparkyard logs``: the log of the server that is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder import cli
from builder.commands import logs as command
from builder.engine.service import Attached
from builder.serve.start import begin
from tests.unit.diagnosis.test_matching import HEALTHY
from tests.unit.played_servers import Played, launch

MATRIX = str(Path(__file__).parents[3] / "matrix.toml")


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    engine = Played(tmp_path)
    monkeypatch.setattr(command.Engine, "connect", lambda: engine.engine)
    return engine


def run(*words: str) -> int:
    return cli.run(["--matrix", MATRIX, "logs", *words])


@pytest.mark.parametrize("words", [(), ("tiny-gemma4",), ("-f",)])
def test_the_whole_log_of_the_only_server(
        played: Played, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    begin(played.engine, launch(played.folder))
    assert run(*words) == 0
    assert capsys.readouterr().out.splitlines()[:2] == list(HEALTHY[:2])


def test_none_several_and_a_wrong_number(
        played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    assert "no server of ours runs" in capsys.readouterr().err
    begin(played.engine, launch(played.folder))
    begin(played.engine, launch(played.folder, "tiny-gemma4-moe", port=9000))
    assert run() == 2
    assert "there are 2 servers" in capsys.readouterr().err
    assert run("tiny-gemma4-moe") == 0
    with pytest.raises(SystemExit):
        run("-n", "x")


def test_ctrl_c_ends_the_log_and_not_the_server(
        played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    begin(played.engine, launch(played.folder))

    def logs(*_: object, **__: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Attached, "logs", logs)
    assert run("-f") == 0
    assert "was not stopped" in capsys.readouterr().err
    assert played.boxes() == {"tiny-gemma4": "running"}
