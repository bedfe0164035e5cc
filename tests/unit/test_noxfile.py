"""The front door: sessions from the matrix, also from one that is broken."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import noxfile
from builder.cli import COMMANDS

ROOT = Path(__file__).parents[2]


def listed(folder: Path) -> str:
    return subprocess.run([sys.executable, "-m", "nox", "-l"], cwd=folder, check=True,
                          capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("noxfile.py", "matrix.toml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_every_image_has_its_sessions(checkout: Path) -> None:
    lines = listed(checkout)
    for image in ("tf5", "tf5-0.19", "latest", "node", "cpu", "cpu-arm64", "cpu-arm64-0.19"):
        assert f"build-{image} ->" in lines
        assert f"smoke-{image} ->" in lines
    for session in ("quickstart", "tests", "lint", *COMMANDS):
        assert f"{session} ->" in lines, "messages name every verb as a session"


@pytest.mark.parametrize("text", ["", "[images.cpu\n", "[images.cpu]\nvllm = = 1\n", "\x00\xff"])
def test_a_broken_matrix_still_lists(checkout: Path, text: str) -> None:
    (checkout / "matrix.toml").write_bytes(text.encode("latin-1"))
    lines = listed(checkout)
    assert "quickstart ->" in lines
    assert ("build-cpu ->" in lines) == ("[images.cpu]" in text)


def test_no_matrix_at_all_still_lists(checkout: Path) -> None:
    (checkout / "matrix.toml").unlink()
    assert "quickstart ->" in listed(checkout)


class Session:
    """Takes down what a session would run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, *words: str, **_: object) -> None:
        self.ran.append(" ".join(words))


def install(checkout: Path, **programs: str) -> None:
    """Let ./nox find the real nox, and these scripts in the place of its environment's programs."""
    shutil.copy(ROOT / "nox", checkout)
    real = (".venv", "nox", f'exec {sys.executable} -m nox "$@"')
    for folder, name, text in (real, *((".nox/sparkyard", *each) for each in programs.items())):
        program = checkout / folder / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    made_from = sys.version.encode() + (checkout / "pyproject.toml").read_bytes()
    (checkout / ".nox/sparkyard/made-from").write_text(hashlib.sha256(made_from).hexdigest())


def test_a_command_that_is_interrupted_has_the_time_to_clean_up(checkout: Path) -> None:
    """By itself nox kills it after half a second. It also learns whose death is its own."""
    install(checkout, sparkyard="""
trap 'sleep 2; echo "cleaned, of $SPARKYARD_PARENT" >cleaned; exit 130' INT
echo ready
sleep 60 & wait""")
    with subprocess.Popen(["./nox", "-s", "build", "--", "cpu"], cwd=checkout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          process_group=0) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        os.killpg(child.pid, signal.SIGINT)
        child.communicate()
    assert (checkout / "cleaned").read_text() == f"cleaned, of {child.pid}\n"


def test_a_command_learns_where_it_was_typed_and_other_programs_do_not(checkout: Path) -> None:
    """The real nox leaves the folder in which ./nox was typed; paths begin there all the same."""
    install(checkout, sparkyard='echo "<$*> of <${SPARKYARD_CALLER_FOLDER-unset}>"',
            ruff='echo "<$*> of <${SPARKYARD_CALLER_FOLDER-unset}>"')
    typed_in = checkout / "deep" / "folder"
    typed_in.mkdir(parents=True)

    def said(*words: str) -> str:
        return subprocess.run(["../../nox", "-s", *words], cwd=typed_in, check=False, text=True,
                              capture_output=True, env={"PATH": "/usr/bin:/bin"}).stdout

    assert f"<diagnose log1> of <{typed_in}>" in said("diagnose", "--", "log1")
    assert f"<smoke cpu --level 2> of <{typed_in}>" in said("smoke-cpu", "--", "--level", "2")
    assert "<check .> of <unset>" in said("lint")


@pytest.mark.parametrize(("there", "user", "ci", "ran"), [
    ({"apt-get", "chromium"}, 0, True, []),
    ({"apt-get", "google-chrome"}, 1000, True, []),
    ({"apt-get"}, 1000, False, []),
    ({"brew"}, 0, True, []),
    ({"apt-get"}, 0, False, ["apt-get -q update",
                             "apt-get -q install -y --no-install-recommends chromium"]),
    ({"apt-get"}, 1000, True, ["sudo apt-get -q update",
                               "sudo apt-get -q install -y --no-install-recommends chromium"])])
def test_a_browser_is_installed_only_where_there_is_none_and_none_is_asked(
        monkeypatch: pytest.MonkeyPatch, there: set[str], user: int, ci: bool,
        ran: list[str]) -> None:
    monkeypatch.setattr("shutil.which", lambda name: name if name in there else None)
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.delenv("CI", raising=False)
    if ci:
        monkeypatch.setenv("CI", "1")
    session = Session()
    noxfile.install_browser(session)  # type: ignore[arg-type]
    assert session.ran == ran
