"""GitPython loads only where git is used, and a missing git program is one clear error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from builder import git_library
from builder.cli import COMMANDS

ROOT = Path(__file__).parents[2]


def without_git(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python where no program is found by its name."""
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False,
                          cwd=ROOT, env={"PATH": str(folder), "HOME": str(folder)}, timeout=120)


def test_every_verb_loads_without_git(tmp_path: Path) -> None:
    """``smoke`` once ended as an internal error, since a module that it needs imported git."""
    code = "\n".join(["import importlib, sys",
                      f"for name in {COMMANDS!r}:",
                      "    importlib.import_module('builder.commands.' + name)",
                      "import builder.build, builder.image, builder.patches.series",
                      "assert 'git' not in sys.modules"])
    done = without_git("-c", code, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_needs_git_says_that_it_is_missing(tmp_path: Path) -> None:
    done = without_git("-c", "import sys; from builder.cli import run; sys.exit(run(sys.argv[1:]))",
                       "patch", "series", "cpu", "--checkout", str(tmp_path), folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "error: the program git is not installed" in done.stderr
    assert "apt-get install git" in done.stderr


def test_an_unknown_name_is_no_part_of_it() -> None:
    with pytest.raises(AttributeError):
        _ = git_library.NoSuchName  # type: ignore[attr-defined]
