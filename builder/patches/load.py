"""The locked patches of a cell as a series to apply: from the cache, the registry, or upstream.

Only bytes with the locked sha256 are ever taken, so it does not matter who gives them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from builder import console
from builder import labels as label
from builder.engine.client import ImageFacts
from builder.errors import IntegrityError, LockError, PatchError, command
from builder.indexes.http import SourceError
from builder.indexes.settings import user_sources
from builder.locking.lock import Lock, LockedPatch, load_for
from builder.matrix.cells import Cell
from builder.matrix.patch import Kind, Patch
from builder.patches import artifact
from builder.patches.diffs import digest_of, find, keep
from builder.patches.locate import Ends, bytes_between, read_file
from builder.patches.stage import Series
from builder.patches.status import Candidate
from builder.patches.upstream import Hosting
from builder.workspace import Workspace

Ask = Callable[[], Hosting]  # makes the client when it is first needed; the same one after that


def asking(workspace: Workspace) -> Ask:
    """Return what makes one client of the hosting service, for as many cells as share it.

    It remembers what was refused, so that a service that is away costs its time once.
    """
    return functools.cache(lambda: Hosting(user_sources(), workspace.cache))


def load_series(workspace: Workspace, cell: Cell, lock: Lock, *, strict: bool = True,
                ask: Ask | None = None) -> Series:
    """Return the cell's patches by wheel, in order; those locked as unresolved have no bytes.

    Raises PatchError where a file of the checkout is not what was locked, IntegrityError where
    upstream serves other bytes for the locked commits, and, if ``strict``, PatchError where
    locked bytes cannot be had: left out, the same lock would make another image.
    """
    ask = ask or asking(workspace)
    series: dict[str, list[Candidate]] = {}
    for locked in lock.patches:
        patch = cell.patches[locked.name]
        data, why = _bytes(workspace, cell, patch, locked, ask)
        if strict and data is None and locked.sha256:
            raise PatchError(f"the locked patch {locked.source} is not available: {why}",
                             where=cell.id, next_step="connect to the network and try again, or "
                             "name the registry that has the image: SPARKYARD_REGISTRY")
        compiled = any(locked.sha256 in entry.patches for entry in lock.compiled
                       if entry.name == locked.wheel)
        series.setdefault(locked.wheel, []).append(
            candidate(locked, patch, data, why, compiled=compiled))
    return series


def candidate(locked: LockedPatch, patch: Patch, data: bytes | None, why: str = "", *,
              compiled: bool = False) -> Candidate:
    """Return a locked patch as one to be judged."""
    return Candidate(locked.source, patch.tag(locked.name), data, patch.required, patch.revert,
                     patch.include, patch.exclude, why, compiled)


def _bytes(workspace: Workspace, cell: Cell, patch: Patch, locked: LockedPatch, ask: Ask
           ) -> tuple[bytes | None, str]:
    """Return a patch's bytes, or None and the reason why there are none."""
    if patch.kind is Kind.FILE:
        return _of_file(workspace.root, cell, patch, locked), ""
    if locked.why:
        return None, locked.why
    data = find(workspace.cache, locked.sha256)
    if data is not None:
        return data, ""
    console.info(f"fetching patch {locked.source}")
    data = artifact.pull(workspace.registry, locked.sha256)
    if data is None:
        try:
            data = _of_upstream(ask(), patch, locked)
        except SourceError as failure:
            return None, f"neither the registry nor upstream provided it: {failure.reason}"
    keep(workspace.cache, data)
    return data, ""


def _of_file(root: Path, cell: Cell, patch: Patch, locked: LockedPatch) -> bytes:
    data = read_file(root, patch, locked.name)
    if digest_of(data) != locked.sha256:
        raise PatchError("the patch file has changed since it was locked\n"
                         f"  locked {locked.sha256}\n  now    {digest_of(data)}",
                         where=patch.file or "",
                         next_step="accept it with " + command("patch", "refresh", cell.id))
    return data


def _of_upstream(hosting: Hosting, patch: Patch, locked: LockedPatch) -> bytes:
    """Ask for the locked commits' difference; raises SourceError, and IntegrityError."""
    data = bytes_between(patch, Ends(locked.base, locked.head), hosting)
    if digest_of(data) != locked.sha256:
        raise IntegrityError(f"patch {locked.source}", expected=locked.sha256,
                             actual=digest_of(data), next_step="upstream serves other bytes for "
                             "the same commits; accept them with "
                             + command("patch", "refresh"))
    return data


def push_patches(workspace: Workspace, cell: Cell, image: ImageFacts) -> tuple[str, ...]:
    """Push the bytes of the patches that an image was made with; return the artifacts' names.

    The image's label has their digests, so it does not matter what the lock has become since.
    """
    names = []
    for sha256 in filter(None, image.labels.get(label.PATCHES, "").split(",")):
        locked, data = _of_image(workspace, cell, sha256)
        if data is None:
            console.warn(f"{cell.id}: the patch sha256:{sha256} is not available any more; only "
                         "the image is pushed")
            continue
        names.append(artifact.push(workspace.registry, sha256, data, locked))
    return tuple(names)


def _of_image(workspace: Workspace, cell: Cell, sha256: str
              ) -> tuple[LockedPatch | None, bytes | None]:
    """Return a patch by digest: from the cache, or as the lock, where it still has it, says."""
    data = find(workspace.cache, sha256)
    try:
        lock = load_for(cell, workspace.locks)
        locked = next((patch for patch in lock.patches if patch.sha256 == sha256), None)
    except LockError:
        locked = None  # missing or stale: of another image than this one
    if data is None and locked is not None:
        data, _ = _bytes(workspace, cell, cell.patches[locked.name], locked, asking(workspace))
    return locked, data or artifact.pull(workspace.registry, sha256)
