"""A series as commits on a branch, for source builds: one commit a patch, the same hashes anywhere.

What a prebuilt wheel cannot take (``csrc/``, ``cmake/``) is in; tests and documents are left out
as they are there. Everything is written into the object store first and the branch set last, so
that a failure or a kill leaves the checkout as it was.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from git import Blob as GitBlob
from git import Commit, Repo, Tree
from git.exc import BadName, GitCommandError, InvalidGitRepositoryError, NoSuchPathError

from builder.errors import PatchError, UsageError
from builder.patches.apply import Applied, Blob, Layered, apply_files
from builder.patches.diff import parse_diff
from builder.patches.filepatch import reverse
from builder.patches.scope import is_left
from builder.patches.status import Candidate

IDENTITY = {"GIT_AUTHOR_NAME": "sparkyard", "GIT_AUTHOR_EMAIL": "sparkyard@localhost",
            "GIT_COMMITTER_NAME": "sparkyard", "GIT_COMMITTER_EMAIL": "sparkyard@localhost"}
REGULAR, EXECUTABLE = 0o100644, 0o100755


@dataclass(frozen=True)
class Committed:
    """The branch, its commits as (patch, hash) in order, and a word on each patch left out."""

    branch: str
    commits: tuple[tuple[str, str], ...]
    words: tuple[str, ...]


class CommitTree:
    """The files of a commit, as patches want them; links and submodules are no files."""

    def __init__(self, commit: Commit) -> None:
        """Take the commit; nothing is read yet."""
        self._tree = commit.tree

    def read(self, path: str) -> Blob | None:
        """Return a file, None where there is none."""
        found = self._find(path)
        if not isinstance(found, GitBlob) or found.mode not in (REGULAR, EXECUTABLE):
            return None
        return Blob(found.data_stream.read(), found.mode == EXECUTABLE)

    def is_folder(self, path: str) -> bool:
        """Say whether files lie below ``path``."""
        return isinstance(self._find(path), Tree)

    def _find(self, path: str) -> object:
        try:
            return self._tree / path
        except KeyError:
            return None


def commit_series(checkout: Path, base: str, branch: str, series: Sequence[Candidate]
                  ) -> Committed:
    """Put a series on top of ``base`` as ``branch``; the files of the checkout stay as they are.

    Raises UsageError for what is no checkout with that commit, PatchError where a required patch
    cannot be had or does not apply; the branch is not touched then.
    """
    with _opened(checkout) as repo:
        start = _commit(repo, base)
        tree, parent = Layered(CommitTree(start)), start.hexsha
        commits, words = [], []
        for candidate in series:
            applied, why = _applied(candidate, tree)
            if why:
                words.append(f"patch {candidate.id} left out: {why}")
                continue
            tree.add(applied.changes)
            parent = _write(repo, parent, applied.changes, candidate.id, start.committed_date)
            commits.append((candidate.id, parent))
        repo.git.update_ref(f"refs/heads/{branch}", parent)
    return Committed(branch, tuple(commits), tuple(words))


def _applied(candidate: Candidate, tree: Layered) -> tuple[Applied, str]:
    """Return what a patch changes, or why it is left out; raises PatchError for a required one."""
    if candidate.diff is None:
        return Applied(), _left_out(candidate, candidate.why or "its bytes cannot be had")
    files = [file for file in parse_diff(candidate.diff, candidate.id)
             if not all(is_left(path, candidate.take, candidate.leave) for path in file.paths)]
    files = list(reverse(files)) if candidate.undo else files
    applied = apply_files(files, tree)
    if not applied.conflicts:
        return applied, ""
    if not apply_files(reverse(files), tree).conflicts:
        return Applied(), "already in"
    return Applied(), _left_out(candidate, "\n".join(map(str, applied.conflicts)))


def _left_out(candidate: Candidate, why: str) -> str:
    if candidate.required:
        raise PatchError(f"a required patch does not apply: {candidate.id}\n{why}",
                         where=candidate.id, next_step="choose the commit that it was made for, "
                         "or mark it optional")
    return why


def _write(repo: Repo, parent: str, changes: Mapping[str, Blob | None], subject: str,
           moment: int) -> str:
    """Write one commit with an index of its own; return its hash. Names and time are fixed."""
    with tempfile.TemporaryDirectory() as folder:
        date = f"{moment} +0000"
        environment = {**IDENTITY, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date,
                       "GIT_INDEX_FILE": str(Path(folder, "index"))}
        with repo.git.custom_environment(**environment):
            repo.git.read_tree(parent)
            for path, blob in sorted(changes.items()):
                if blob is None:
                    repo.git.update_index("--force-remove", "--", path)
                else:
                    mode = "100755" if blob.executable else "100644"
                    name = _hash_object(repo, Path(folder, "blob"), blob.data)
                    repo.git.update_index("--add", "--cacheinfo", f"{mode},{name},{path}")
            tree = repo.git.write_tree()
            return str(repo.git.commit_tree(tree, "-p", parent, "-m", subject))


def _hash_object(repo: Repo, scratch: Path, data: bytes) -> str:
    scratch.write_bytes(data)
    return str(repo.git.hash_object("-w", "--no-filters", "--", str(scratch)))


@contextmanager
def _opened(checkout: Path) -> Iterator[Repo]:
    try:
        repo = Repo(checkout)
    except (InvalidGitRepositoryError, NoSuchPathError) as error:
        raise UsageError("there is no git checkout", where=str(checkout),
                         next_step="clone the sources there") from error
    with repo:
        yield repo


def _commit(repo: Repo, name: str) -> Commit:
    try:
        return repo.commit(name)
    except (BadName, ValueError, GitCommandError) as error:
        raise UsageError(f'the checkout has no commit "{name}"', where=str(repo.working_dir),
                         next_step="fetch its tags") from error
