"""``patch refresh``: lock the patches as they are upstream now, cell by cell, and propose edits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from builder.errors import LockError, UsageError, command
from builder.locking.lock import Lock, lock_path, patches_for, read_lock, write_lock
from builder.locking.sums import refuse_edited, settle
from builder.matrix.cells import Cell
from builder.patches.diffs import cache_errors
from builder.patches.drift import Drift, Seen, drift
from builder.patches.load import load_series
from builder.patches.locking import lock_patches, moved_since
from builder.patches.status import standings
from builder.patches.upstream import Hosting
from builder.store.content_store import Store
from builder.workspace import Workspace


@dataclass(frozen=True)
class Refreshed:
    """One cell: its lock as written, what moved since the old one, in words."""

    cell: Cell
    lock: Lock
    moved: tuple[str, ...]
    changed: bool


def refresh(workspace: Workspace, cell: Cell, hosting: Hosting) -> Refreshed:
    """Lock the cell's patches as they are now; its wheels stay.

    Raises LockError where the wheels are not locked, or not for this matrix entry, UsageError
    where the lock cannot be written.
    """
    path, again = lock_path(workspace.locks, cell), command("lock", cell.id)
    old = read_lock(path)
    refuse_edited(path, "lock", f"make it again with {again}")
    if old.intent != cell.intent_digest:
        raise LockError("the lock is stale: the matrix entry has changed since it was made",
                        where=cell.id, next_step=f"run {again}")
    new = lock_patches(cell, old, old.patches, workspace.root, hosting, workspace.cache,
                       accept=True)
    before = {(patch.source, patch.wheel): patch for patch in old.patches}
    moved = [moved_since(before[now.source, now.wheel], now) for now in new.patches
             if (now.source, now.wheel) in before]
    if new != old:
        _write(workspace, new)
    else:
        settle(path)
    return Refreshed(cell, new, tuple(filter(None, moved)), new != old)


def _write(workspace: Workspace, lock: Lock) -> None:
    try:
        write_lock(workspace.locks, lock)
    except OSError as error:
        raise UsageError(f"the lock cannot be written: {error.strerror}",
                         where=str(lock_path(workspace.locks, lock.cell)),
                         next_step="check the permissions of the folder locks/") from error


def drifts(cells: Sequence[Cell], hosting: Hosting) -> list[Drift]:
    """Ask what became of every patch that is declared for any of the cells."""
    declared = {name: patch for cell in cells for name, patch in cell.patches.items()}
    return [drift(name, patch, hosting) for name, patch in declared.items()]


def seen_in_wheels(workspace: Workspace, done: Sequence[Refreshed]) -> dict[str, list[Seen]]:
    """Judge each cell's patches on its wheel where the store has it; no wheel is fetched.

    What was not judged, there or in the other cells, is in the result too: it may be needed.
    """
    found = dict[str, list[Seen]]()
    for one in done:
        for name, seen in _judged(workspace, one):
            found.setdefault(name, []).append(seen)
    for cell in workspace.cells:
        if cell.id not in {one.cell.id for one in done}:
            for name, seen in _not_judged(workspace, cell):
                found.setdefault(name, []).append(seen)
    return found


def _judged(workspace: Workspace, one: Refreshed) -> Iterator[tuple[str, Seen]]:
    store = Store(workspace.cache)
    series = load_series(workspace, one.cell, one.lock, strict=False)
    names = _names(one.lock)
    for wheel_name, candidates in series.items():
        wheel = one.lock.wheel(wheel_name)
        if wheel is None:
            continue
        with cache_errors(store.root):
            path = store.find_wheel(wheel)
        found = [verdict.standing for verdict in standings(path, wheel.sha256, candidates,
                                                           store.root)] if path else []
        for name, standing in zip_longest(names[wheel_name], found):
            yield name, Seen(one.cell.id, wheel.version, standing)


def _not_judged(workspace: Workspace, cell: Cell) -> Iterator[tuple[str, Seen]]:
    try:
        lock = read_lock(lock_path(workspace.locks, cell))
    except LockError:
        return  # not locked, or not readably: nothing is known of its versions
    for name, patch in patches_for(cell, lock):
        wheel = lock.wheel(patch.wheel(cell.vllm_package))
        if wheel is not None:
            yield name, Seen(cell.id, wheel.version, None)


def _names(lock: Lock) -> Mapping[str, list[str]]:
    """Return the patches' names in the matrix by wheel, in order."""
    names: dict[str, list[str]] = {}
    for patch in lock.patches:
        names.setdefault(patch.wheel, []).append(patch.name)
    return names
