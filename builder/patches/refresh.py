"""``patch refresh``: accept what patches are upstream now, cell by cell, and say what to mend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builder.cells import Cell
from builder.errors import LockError
from builder.lock import Lock, lock_path, read_lock, write_lock
from builder.patches.drift import Drift, Seen, drift
from builder.patches.load import load_series
from builder.patches.locking import lock_patches, moved_since
from builder.patches.status import standings
from builder.patches.upstream import Hosting
from builder.store import Store
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

    Raises LockError where the wheels are not locked, or not for this matrix entry.
    """
    old = read_lock(lock_path(workspace.locks, cell))
    if old.intent != cell.intent_digest:
        raise LockError("the matrix entry has changed since this lock was made", where=cell.id,
                        next_step=f"run `sparkyard lock {cell.id}`")
    new = lock_patches(cell, old, old.patches, workspace.root, hosting, workspace.cache,
                       accept=True)
    before = {(patch.source, patch.wheel): patch for patch in old.patches}
    moved = [moved_since(before[now.source, now.wheel], now) for now in new.patches
             if (now.source, now.wheel) in before]
    if new != old:
        write_lock(workspace.locks, new)
    return Refreshed(cell, new, tuple(filter(None, moved)), new != old)


def drifts(cells: Sequence[Cell], hosting: Hosting) -> list[Drift]:
    """Ask what became of every patch that is declared for any of the cells."""
    declared = {name: patch for cell in cells for name, patch in cell.patches.items()}
    return [drift(name, patch, hosting) for name, patch in declared.items()]


def seen_in_wheels(workspace: Workspace, done: Sequence[Refreshed]) -> dict[str, list[Seen]]:
    """Judge each cell's patches on its wheel where the store has it; no wheel is fetched."""
    store, found = Store(workspace.cache), dict[str, list[Seen]]()
    for one in done:
        series = load_series(workspace, one.cell, one.lock, strict=False)
        names = _names(one.lock)
        for wheel_name, candidates in series.items():
            wheel = one.lock.wheel(wheel_name)
            path = store.find_wheel(wheel) if wheel else None
            if wheel is None or path is None:
                continue
            verdicts = standings(path, wheel.sha256, candidates, store.root)
            for name, verdict in zip(names[wheel_name], verdicts, strict=True):
                found.setdefault(name, []).append(Seen(one.cell.id, wheel.version,
                                                       verdict.standing))
    return found


def _names(lock: Lock) -> Mapping[str, list[str]]:
    """Return the patches' names in the matrix by wheel, in order."""
    names: dict[str, list[str]] = {}
    for patch in lock.patches:
        names.setdefault(patch.wheel, []).append(patch.name)
    return names
