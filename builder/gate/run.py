"""The gate as a stage: a locked cell's wheels on its base, for ``gate`` and ``build``.

A kept verdict is found by digests alone: neither the wheels nor the base are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from builder import console
from builder.bases.facts import committed, of_image
from builder.bases.state import image_tag
from builder.binaries.facts import BaseFacts
from builder.engine.client import Engine
from builder.fetch.wheels import FetchedWheels
from builder.gate.judge import GateReport, judge_cell, kept_verdict
from builder.locking.base_lock import LockedBase
from builder.locking.lock import Lock
from builder.matrix.cells import Cell
from builder.workspace import Workspace


@dataclass(frozen=True)
class BaseSource:
    """A base that may have to be read: its digest (empty where there is none), and how."""

    digest: str
    load: Callable[[], BaseFacts | None]


def own_base(workspace: Workspace, locked: LockedBase | None, engine: Engine | None = None
             ) -> BaseSource:
    """Return the facts of a cell's own base: committed, or read from the engine's image."""
    if locked is None:
        return BaseSource("", lambda: None)

    def load() -> BaseFacts | None:
        facts = committed(workspace.locks, locked)
        if facts is not None:
            return facts
        at = engine or Engine.connect()
        image = at.inspect(image_tag(workspace.registry, locked))
        return of_image(at, image, workspace.cache, locked.name) if image else None

    return BaseSource(locked.image_id, load)


def gate_cell(workspace: Workspace, cell: Cell, lock: Lock, base: BaseSource,
              wheels: Callable[[], FetchedWheels]) -> GateReport:
    """Judge a locked cell; ``wheels`` fetches them, only if they must be read."""
    kept = kept_verdict(cell, lock, base.digest, workspace.cache)
    if kept is not None:
        return kept
    facts, paths = base.load(), wheels().paths
    with console.progress(f"gate {cell.id}", float(lock.size)) as meter:
        return judge_cell(cell, lock, [(paths[wheel], wheel.sha256) for wheel in lock.wheels],
                          facts, workspace.cache, meter.advance)
