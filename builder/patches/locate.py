"""A declared patch into a locked one: which two commits, and the sha256 of their difference.

A merged pull request is its merge commit, which no push can change any more; an open one is its
head against the commit at which it left its base. What cannot be had is locked as unresolved with
the reason, and never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from builder import limits
from builder.errors import PatchError
from builder.indexes.http import SourceError
from builder.locking.lock import LockedPatch
from builder.matrix.patch import RANGE, Kind, Patch
from builder.patches.answers import Commit
from builder.patches.diff import parse_diff
from builder.patches.diffs import keep, normal_form
from builder.patches.upstream import Hosting


@dataclass(frozen=True)
class Ends:
    """The two commits whose difference a patch is."""

    base: str
    head: str


def locate(name: str, patch: Patch, wheel: str, root: Path, hosting: Hosting, cache: Path
           ) -> LockedPatch:
    """Find a patch and keep its bytes; one that cannot be had is unresolved and says why.

    Raises PatchError for a file of the checkout that is not there or is no diff: that is a
    mistake, and no outage.
    """
    known = partial(LockedPatch, name=name, source=patch.id, wheel=wheel, intent=patch.digest)
    if patch.kind is Kind.FILE:
        data = read_file(root, patch, name)
        return known(sha256=keep(cache, data), size=len(data))
    try:
        ends = ends_of(patch, hosting)
        data = bytes_between(patch, ends, hosting)
    except SourceError as failure:
        return known(why=failure.reason)
    return known(base=ends.base, head=ends.head, sha256=keep(cache, data), size=len(data))


def ends_of(patch: Patch, hosting: Hosting) -> Ends:
    """Return the two commits of a patch as they are now; raises SourceError."""
    repository = patch.repository or ""
    if patch.kind is Kind.PULL:
        assert patch.pull is not None
        return _ends_of_pull(repository, patch.pull, hosting)
    if patch.kind is Kind.COMMIT:
        return _ends_of_commit(hosting.commit(repository, patch.commit or ""))
    named = RANGE.fullmatch(patch.compare or "")
    assert named is not None
    head = hosting.commit(repository, named["head"]).sha
    return Ends(hosting.merge_base(repository, named["base"], head), head)


def _ends_of_commit(commit: Commit) -> Ends:
    if not commit.parents:
        raise SourceError("the commit has no parent to compare it with", retry=False)
    return Ends(commit.parents[0].sha, commit.sha)


def _ends_of_pull(repository: str, number: int, hosting: Hosting) -> Ends:
    pull = hosting.pull(repository, number)
    if not pull.merged_at:
        head = pull.head.sha
        return Ends(hosting.merge_base(repository, pull.base.sha, head), head)
    if pull.merge_commit is None:
        raise SourceError("it is merged, but the service names no merge commit", retry=False)
    merge = hosting.commit(repository, pull.merge_commit)
    if pull.commits > 1 and len(merge.parents) == 1 and \
            merge.commit == hosting.commit(repository, pull.head.sha).commit:
        # Rebased, not squashed: the commit that is named is only the last one of them.
        raise SourceError(f"it was merged as {pull.commits} commits; declare them as "
                          f'compare = "BASE...{merge.sha}"', retry=False)
    return _ends_of_commit(merge)


def bytes_between(patch: Patch, ends: Ends, hosting: Hosting) -> bytes:
    """Return the difference in normal form; raises SourceError, also for what is no diff."""
    data = normal_form(hosting.diff(patch.repository or "", ends.base, ends.head))
    try:
        parse_diff(data, patch.id)
    except PatchError as error:
        raise SourceError(error.what, retry=False) from error
    return data


def read_file(root: Path, patch: Patch, name: str) -> bytes:
    """Return a patch file of the checkout in normal form; raises PatchError."""
    path = root / (patch.file or "")
    try:
        data = normal_form(limits.read_file(path, limits.PATCH_BYTES, "patch"))
    except OSError as error:
        raise PatchError(f"the patch file cannot be read: {error.strerror}",
                         where=f"matrix.toml: patches.{name}.file",
                         next_step=f"create {patch.file}, or correct the path") from error
    parse_diff(data, patch.file or "")
    return data
