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
from functools import partial
from pathlib import Path

from builder import git_library as git
from builder.errors import PatchError, UsageError
from builder.patches.apply import Blob, Layered
from builder.patches.scope import whole_scope
from builder.patches.status import Candidate, Standing, judge_one, require
from builder.text import redact, visible

IDENTITY = {"GIT_AUTHOR_NAME": "sparkyard", "GIT_AUTHOR_EMAIL": "sparkyard@localhost",
            "GIT_COMMITTER_NAME": "sparkyard", "GIT_COMMITTER_EMAIL": "sparkyard@localhost"}
REGULAR, EXECUTABLE = 0o100644, 0o100755


@dataclass(frozen=True)
class Committed:
    """The branch, its commits as (patch, hash) in order, and a word on each patch left out."""

    branch: str
    commits: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]


class CommitTree:
    """The files of a commit, as patches want them."""

    def __init__(self, commit: git.Commit) -> None:
        """Take the commit; nothing is read yet."""
        self._tree = commit.tree

    def read(self, path: str) -> Blob | None:
        """Return a file, None where there is none; raises PatchError for a link or submodule."""
        found = self._find(path)
        if found is None or isinstance(found, git.Tree):
            return None
        if not isinstance(found, git.Blob) or found.mode not in (REGULAR, EXECUTABLE):
            raise PatchError(f"{path} is a symbolic link or a submodule", where=path,
                             next_step="exclude the path (`exclude`), or remove the patch")
        return Blob(found.data_stream.read(), found.mode == EXECUTABLE)

    def is_folder(self, path: str) -> bool:
        """Say whether files lie below ``path``."""
        return isinstance(self._find(path), git.Tree)

    def _find(self, path: str) -> object:
        try:
            return self._tree / path
        except KeyError:
            return None


def commit_series(checkout: Path, base: str, branch: str, series: Sequence[Candidate]
                  ) -> Committed:
    """Put a series on top of ``base`` as ``branch``; the files of the checkout stay as they are.

    Raises UsageError for what is no checkout with that commit and for a branch that is not to be
    replaced, PatchError where a required patch cannot be had or does not apply; the branch is not
    touched then.
    """
    with _opened(checkout) as repo:
        start = _commit(repo, base)
        tree, parent = CommitTree(start), start.hexsha
        done = Layered(tree)
        commits, warnings = [], []
        for candidate in series:
            scoped = partial(whole_scope, include=candidate.include, exclude=candidate.exclude)
            verdict, changes = judge_one(candidate, scoped, tree, done)
            warnings += require(branch, [candidate], [verdict])
            if verdict.standing is Standing.APPLIES:
                done.add(changes)
                parent = _write(repo, parent, changes, candidate.id, start.committed_date)
                commits.append((candidate.id, parent))
        _require_free(repo, branch, parent)
        repo.git.update_ref(f"refs/heads/{branch}", parent)
    return Committed(branch, tuple(commits), tuple(warnings))


def _require_free(repo: git.Repo, branch: str, tip: str) -> None:
    """Refuse to move a branch that lies in a work tree, or that has commits of somebody else."""
    name = f"refs/heads/{branch}"
    if f"branch {name}" in repo.git.worktree("list", "--porcelain").splitlines():
        raise UsageError(f"the branch {branch} is checked out", where=str(repo.working_dir),
                         next_step="switch to another branch first")
    here = next((head for head in repo.heads if head.path == name), None)
    if here and here.commit.committer.email != IDENTITY["GIT_COMMITTER_EMAIL"] and \
            not repo.is_ancestor(here.commit, repo.commit(tip)):
        raise UsageError(f"the branch {branch} has commits that are not from this command",
                         where=str(repo.working_dir),
                         next_step="rename that branch, since this command would replace it")


def _write(repo: git.Repo, parent: str, changes: Mapping[str, Blob | None], subject: str,
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


def _hash_object(repo: git.Repo, scratch: Path, data: bytes) -> str:
    scratch.write_bytes(data)
    return str(repo.git.hash_object("-w", "--no-filters", "--", str(scratch)))


@contextmanager
def _opened(checkout: Path) -> Iterator[git.Repo]:
    """Open a checkout; what git rejects in the block is a UsageError with git's own message."""
    try:
        with git.Repo(checkout) as repo:
            # The one library for it reads sha1 names only.
            if repo.git.rev_parse("--show-object-format") != "sha1":
                raise UsageError("checkouts with sha256 object names are not supported",
                                 where=str(checkout), next_step="clone it from upstream")
            yield repo
    except (git.exc.InvalidGitRepositoryError, git.exc.NoSuchPathError) as error:
        raise UsageError("this is not a git checkout", where=str(checkout),
                         next_step="clone the sources into this folder") from error
    except git.exc.GitCommandError as error:
        message = error.stderr.strip().removeprefix("stderr: ").strip("'")
        raise UsageError(f"git failed: {redact(visible(message))}", where=str(checkout),
                         next_step="repair the checkout, then run the same command again"
                         ) from error


def _commit(repo: git.Repo, name: str) -> git.Commit:
    try:
        return repo.commit(name)
    except (git.exc.BadName, ValueError, git.exc.GitCommandError) as error:
        raise UsageError(f'the checkout has no commit "{name}"', where=str(repo.working_dir),
                         next_step="fetch it: `git fetch --tags`") from error
