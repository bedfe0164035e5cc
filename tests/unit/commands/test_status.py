"""``sparkyard status``: a table, or one document; red where a server does not do its work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder import cli
from builder.commands import status as command
from builder.serve.start import begin
from tests.unit.played_servers import Played, launch

MATRIX = str(Path(__file__).parents[3] / "matrix.toml")


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    engine = Played(tmp_path)
    monkeypatch.setattr(command.Engine, "connect", lambda: engine.engine)
    return engine


def run(*words: str) -> int:
    return cli.run(["--matrix", MATRIX, "status", *words])


def test_none_runs(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert "no server of ours runs" in capsys.readouterr().out
    assert run("--json") == 0
    assert json.loads(capsys.readouterr().out) == {"servers": [], "notes": []}
    assert not (played.folder / "cache").exists(), "who only looks makes nothing"


def test_an_ended_one_is_red(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    played.change(die=["tiny-gemma4"])
    begin(played.engine, launch(played.folder))
    capsys.readouterr()
    assert run() == 1
    assert "ended with status 1" in capsys.readouterr().out
    assert run("--json") == 1
    row = json.loads(capsys.readouterr().out)["servers"][0]
    assert (row["recipe"], row["good"]) == ("tiny-gemma4", False)
