"""A declared patch into a locked one: which two commits, and the sha256 of their difference.

A merged pull request is its merge commit, which no push can change any more; an open one is its
head against the commit at which it left its base. What cannot be had is locked as unresolved with
the reason, and never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from builder.errors import PatchError
from builder.http_client import SourceError
from builder.lock import LockedPatch
from builder.patches.declared import RANGE, Kind, Patch
from builder.patches.diff import parse_diff
from builder.patches.diffs import find, keep, normal_form
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
    except PatchError as error:
        return known(why=f"what is served is no diff: {error.what}")
    return known(base=ends.base, head=ends.head, sha256=keep(cache, data), size=len(data))


def ends_of(patch: Patch, hosting: Hosting) -> Ends:
    """Return the two commits of a patch as they are now; raises SourceError."""
    repository = patch.repository or ""
    if patch.kind is Kind.PULL:
        assert patch.pull is not None
        return _ends_of_pull(repository, patch.pull, hosting)
    if patch.kind is Kind.COMMIT:
        head, parent = hosting.commit(repository, patch.commit or "")
        return Ends(parent, head)
    named = RANGE.fullmatch(patch.compare or "")
    assert named is not None
    head = hosting.commit(repository, named["head"])[0]
    return Ends(hosting.merge_base(repository, named["base"], head), head)


def _ends_of_pull(repository: str, number: int, hosting: Hosting) -> Ends:
    pull = hosting.pull(repository, number)
    try:
        if pull.get("merged") or pull.get("merged_at"):
            head, parent = hosting.commit(repository, str(pull["merge_commit_sha"]))
            return Ends(parent, head)
        head = str(pull["head"]["sha"])
        return Ends(hosting.merge_base(repository, str(pull["base"]["sha"]), head), head)
    except (KeyError, TypeError) as error:
        raise SourceError("its answer is no pull request", retry=False) from error


def bytes_between(patch: Patch, ends: Ends, hosting: Hosting) -> bytes:
    """Return the difference in normal form; raises SourceError, and PatchError for no diff."""
    data = normal_form(hosting.diff(patch.repository or "", ends.base, ends.head))
    parse_diff(data, patch.id)
    return data


def read_file(root: Path, patch: Patch, name: str) -> bytes:
    """Return a patch file of the checkout in normal form; raises PatchError."""
    path = root / (patch.file or "")
    try:
        data = normal_form(path.read_bytes())
    except OSError as error:
        raise PatchError(f"the patch file cannot be read: {error.strerror}",
                         where=f"matrix.toml: patches.{name}.file",
                         next_step=f"put it to {patch.file}") from error
    parse_diff(data, patch.file or "")
    return data


def kept(cache: Path, locked: LockedPatch) -> bytes | None:
    """Return a locked patch's bytes from the cache."""
    return find(cache, locked.sha256) if locked.sha256 else None
