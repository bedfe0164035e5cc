"""``sparkyard stop``: idempotent, never in doubt, and it says what remains."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder import cli
from builder.commands import stop as command
from builder.serve.at_work import at_work
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
    return cli.run(["--matrix", MATRIX, "stop", *words])


def test_it_stops_the_only_one_says_what_remains_and_a_second_time_nothing(
        played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    begin(played.engine, launch(played.folder))
    compiled = played.folder / "cache" / "vllm" / "tiny-gemma4-0"
    compiled.mkdir(parents=True)
    (compiled / "kernel").write_bytes(b"x" * 500)
    (played.folder / "cache" / ".sparkyard-cache").touch()
    assert run() == 0
    said = capsys.readouterr().err
    assert f"kept: {compiled} (compiled, 500 B)" in said
    assert "kept: the image registry/x:x" in said
    assert played.boxes() == {}
    assert run() == run("tiny-gemma4") == 0
    assert capsys.readouterr().err.count("nothing to stop") == 2


def test_several_have_to_be_named(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    begin(played.engine, launch(played.folder))
    begin(played.engine, launch(played.folder, "tiny-gemma4-moe", port=9000))
    assert run() == 2
    assert "2 servers run" in capsys.readouterr().err
    assert run("tiny-gemma4-moe") == 0
    assert played.boxes() == {"tiny-gemma4": "running"}
    assert run("--all") == 0
    assert played.boxes() == {}


def test_all_names_every_cache_also_of_servers_that_ended_before(
        played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    hub = tmp_path / "hub"
    monkeypatch.setenv("HF_HOME", str(hub))
    assert run("--all") == 0
    assert capsys.readouterr().err.strip() == "no such server runs: nothing to stop"
    cache = played.folder / "cache"
    compiled = [cache / "vllm" / name for name in ("tiny-gemma4-0", "other-1")]
    for folder in (*compiled, cache / "logs", hub):
        folder.mkdir(parents=True)
    (cache / "logs" / "sparkyard-tiny-gemma4-0.log").touch()
    (cache / "logs" / "internal-error-20260101-000000-a.txt").touch()
    begin(played.engine, launch(played.folder))
    assert run("--all") == 0
    said = capsys.readouterr().err
    for kept in (*(f"{folder} (compiled, 0 B)" for folder in compiled),
                 f"{cache / 'logs'} (logs of servers that failed: 1)", f"{hub} (models)",
                 "the image registry/x:x"):
        assert f"kept: {kept}" in said
    begin(played.engine, launch(played.folder))
    assert run() == 0
    said = capsys.readouterr().err
    assert "tiny-gemma4-0" in said
    assert "other-1" not in said
    assert str(hub) not in said


def test_a_name_that_is_mistyped_is_told(
        played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("tiny-gema4") == 2
    assert "no server and no recipe" in capsys.readouterr().err


def test_it_waits_for_no_other_command(
        played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    folder = played.folder / "cache"
    folder.mkdir()
    (folder / ".sparkyard-cache").touch()
    with at_work(folder, "switch tiny-gemma4"):
        assert run() == 2
    assert "another command is at work: switch tiny-gemma4" in capsys.readouterr().err
