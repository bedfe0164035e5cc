"""The verb: a table with remedies, one JSON document, and the exit code of a verdict."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from builder import cli
from builder.commands.doctor import show
from builder.doctor.judging import Line, Verdict

ROOT = Path(__file__).parents[3]
MATRIX = str(ROOT / "matrix.toml")


def test_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.run(["--matrix", MATRIX, "doctor", "--json"])
    lines = json.loads(capsys.readouterr().out)
    assert {"machine", "memory", "docker"} <= {line["check"] for line in lines}
    assert status == int(any(line["verdict"] == "unfit" for line in lines))


def test_a_cache_that_takes_no_file_is_unfit(
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", "/proc/x")
    assert cli.run(["--matrix", MATRIX, "doctor"]) == 1
    assert "UNFIT    folder-unusable  /proc/x: its file system" in capsys.readouterr().out


def test_without_a_recipe_the_disk_is_judged_by_a_build(
        capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["--matrix", MATRIX, "doctor", "--json"])
    (disk,) = [line for line in json.loads(capsys.readouterr().out) if line["check"] == "disk"]
    assert ", a build of " in disk["seen"]


def test_a_lock_at_fault_is_no_fault_of_the_host(
        capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    for name in ("images", "wheels", "recipes", "matrix.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    bases = tmp_path / "locks" / "bases.toml"
    bases.write_text(bases.read_text() + "# by hand\n")
    cli.run(["--matrix", str(tmp_path / "matrix.toml"), "doctor"])
    said = capsys.readouterr()
    assert "not known: the bases' lock was edited by hand" in " ".join(said.err.split())
    assert "machine" in said.out


def test_the_worst_comes_first_and_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    show((Line(check="swap", verdict=Verdict.OK, seen="off"),
          Line(check="port", verdict=Verdict.UNFIT, seen="8000 is taken", reason="the server",
               remedy="stop it", source="https://example.org")))
    text = capsys.readouterr().out
    assert text.index("UNFIT") < text.index("OK")
    assert "do:     stop it" in text
    assert "1 unfit, 0 warning, 0 unseen, 1 ok" in text
