"""What every cell is and what a build of it would do; reads files only, asks nobody.

Linear in the number of cells: a lock is read once, the store's folder is listed once. Whether an
image is there already is the engine's to say, and only asked where the caller hands that in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, assert_never

from pydantic import Field

from builder.bases.state import BaseState, Standing
from builder.errors import LockError
from builder.locking.base_lock import Key
from builder.locking.generated import DamagedLockError
from builder.locking.lock import Lock, load_for, lock_path, read_reasons
from builder.matrix.cells import Cell
from builder.model import Frozen
from builder.store.content_store import wheel_place
from builder.text import one_line
from builder.wheels.policy import lock_problems
from builder.wheels.recipe import Recipe


class LockState(StrEnum):
    """Where a cell stands between intent and facts."""

    LOCKED = "locked"
    STALE = "stale"  # the matrix entry has changed since
    DAMAGED = "damaged"  # edited by hand, badly merged, or cut off
    MISSING = "missing"
    BLOCKED = "blocked"  # the matrix says that it must not be built


class Action(StrEnum):
    """What ``sparkyard build`` would do with a cell."""

    NOTHING = "nothing"  # the engine has the image of these very inputs
    BUILD = "build"
    LOCK_FIRST = "lock first"
    LOCK_BASE_FIRST = "lock the base first"
    UNLOCKED_BASE = "build on an unlocked base"  # works, labelled so, never published
    REFUSE = "refuse"


class CellPlan(Frozen):
    """One cell: its lock, what the store lacks of it, and what a build would do and need.

    ``fetch_bytes`` are the wheels that the store lacks; ``disk_bytes`` is an estimate, see
    ``disk_estimate``. Sizes are None where no lock tells them.
    """

    id: str
    image: str
    platform: str
    gpu: str | None
    cuda: str | None
    base: str
    base_state: BaseState
    axes: Mapping[str, str]
    locked: Mapping[str, str] = Field(default_factory=dict)  # axis -> its version in the lock
    state: LockState
    why: str
    lock_digest: str | None = None
    wheels: int | None = None
    wheel_bytes: int | None = None
    fetch_bytes: int | None = None
    disk_bytes: int | None = None
    action: Action


WHY_LENGTH = 300
UNPACKED_RATIO = 2.0  # bytes unpacked for each byte of wheel; see ``disk_estimate``


def disk_estimate(lock: Lock, fetch_bytes: int) -> int:
    """Return the bytes of free disk that a build from nothing takes, roughly.

    The missing wheels, their contents once as layers in the store, and three times in the engine:
    what it was sent, the layers as they are unpacked, and the image (seen: 2.98 x at the peak).
    """
    return round(fetch_bytes + 4 * UNPACKED_RATIO * lock.size)


def plan_cells(cells: Sequence[Cell], locks: Path, cache: Path, bases: Mapping[Key, Standing],
               is_built: Callable[[Cell, Lock], bool] | None = None,
               recipes: Mapping[str, Recipe] | None = None) -> list[CellPlan]:
    """Return the plan of each cell, in order.

    ``bases`` says where each base of the matrix stands; ``is_built`` asks the engine for an image.
    ``recipes`` are those of the packages that cells compile.
    """
    reasons = read_reasons(locks)
    present = _present(cache)
    plans = []
    for cell in cells:
        state, why, lock = _locked(cell, locks, reasons.get(cell.id, ""))
        refused = _refused(cell, lock, recipes or {})
        key = (cell.base_name, cell.platform)
        base = bases[key]
        if refused:
            why = refused
        elif lock is not None and base.why:
            why = f"base {' '.join(key)}: {base.why}"
        state, why = _blocked_lock(cell, lock, state, why)
        built = lock is not None and is_built is not None and is_built(cell, lock)
        plans.append(CellPlan(
            id=cell.id, image=cell.image, platform=cell.platform, gpu=cell.gpu, cuda=cell.cuda,
            base=cell.base_name, base_state=base.state, axes=cell.axes, state=state, why=why,
            locked=_locked_axes(cell, lock),
            action=Action.NOTHING if built else Action.REFUSE if refused else
            _action(state, base.state),
            **_sizes(lock, cache, present)))
    return plans


def document(plans: Sequence[CellPlan]) -> dict[str, Any]:
    """Return the plan as the one JSON document of ``plan --json``."""
    return {"schema": 1, "cells": [plan.model_dump(mode="json") for plan in plans]}


def buildable(plans: Sequence[CellPlan]) -> list[str]:
    """Return the ids of the cells that can be built as they are: one CI job each."""
    return [plan.id for plan in plans
            if plan.state is LockState.LOCKED
            and plan.action not in (Action.REFUSE, Action.LOCK_BASE_FIRST)]


def _locked_axes(cell: Cell, lock: Lock | None) -> dict[str, str]:
    """Return the version that the lock has for each axis of versions."""
    versions = {wheel.name: wheel.version for wheel in lock.wheels} if lock else {}
    found = {axis: cell.version_of(axis, versions) for axis in cell.axes if axis != "base"}
    return {axis: version for axis, version in found.items() if version}


def _blocked_lock(cell: Cell, lock: Lock | None, state: LockState, why: str
                  ) -> tuple[LockState, str]:
    """Say of a lock of a range whether its versions have been blocked since."""
    block = cell.blocked_with({wheel.name: wheel.version for wheel in lock.wheels}
                              ) if lock else None
    if block is None:
        return state, why
    return LockState.BLOCKED, f"its locked versions: {block.reason} ({block.link})"


def _refused(cell: Cell, lock: Lock | None, recipes: Mapping[str, Recipe]) -> str:
    """Say why nothing is built: the lock lacks a required patch, or what is to be compiled."""
    if lock is None:
        return ""
    lacking = [patch.source for patch in lock.patches
               if patch.why and cell.patches[patch.name].required]
    if lacking:
        return f"required patches are unresolved: {', '.join(lacking)}"
    return "; ".join(f"{problem.where}: {problem.what}"
                     for problem in lock_problems(cell, lock, recipes))


def _sizes(lock: Lock | None, cache: Path, present: frozenset[str]) -> dict[str, Any]:
    if lock is None:
        return {}
    missing = sum(_missing(lock, cache, present))
    return {"lock_digest": lock.digest, "wheels": len(lock.wheels), "wheel_bytes": lock.size,
            "fetch_bytes": missing, "disk_bytes": disk_estimate(lock, missing)}


def _locked(cell: Cell, locks: Path, reason: str) -> tuple[LockState, str, Lock | None]:
    if cell.blocked is not None:
        return LockState.BLOCKED, f"{cell.blocked.reason} ({cell.blocked.link})", None
    if not lock_path(locks, cell).exists():
        return LockState.MISSING, reason or "not resolved yet", None
    try:
        return LockState.LOCKED, "", load_for(cell, locks)
    except DamagedLockError as error:
        return LockState.DAMAGED, one_line(error.what, WHY_LENGTH), None
    except LockError as error:
        return LockState.STALE, error.what.splitlines()[0], None


def _action(state: LockState, base: BaseState) -> Action:
    match state:
        case LockState.LOCKED:
            return {BaseState.LOCKED: Action.BUILD, BaseState.STALE: Action.LOCK_BASE_FIRST,
                    BaseState.UNLOCKED: Action.UNLOCKED_BASE,
                    BaseState.MISSING: Action.UNLOCKED_BASE}[base]
        case LockState.STALE | LockState.DAMAGED | LockState.MISSING:
            return Action.LOCK_FIRST
        case LockState.BLOCKED:
            return Action.REFUSE
        case _:
            assert_never(state)


def _present(cache: Path) -> frozenset[str]:
    """Return the digests of which the store holds something, without touching any file."""
    try:
        with os.scandir(cache / "wheels") as entries:
            return frozenset(entry.name for entry in entries)
    except FileNotFoundError:
        return frozenset()


def _missing(lock: Lock, cache: Path, present: frozenset[str]) -> Iterator[int]:
    """Yield the size of each wheel that the store lacks; a wrong size counts as lacking."""
    for wheel in lock.wheels:
        if wheel.sha256 not in present:
            yield wheel.size
            continue
        path = wheel_place(cache, wheel)
        if not path.exists() or path.stat().st_size != wheel.size:
            yield wheel.size
