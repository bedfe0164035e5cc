"""``sparkyard lock``: resolve cells into exact wheels; one failing does not stop the others."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from builder import console
from builder.errors import LockError, SparkyardError, UsageError, command
from builder.indexes.settings import user_sources
from builder.locking.candidates import KnownSizes, known_sizes
from builder.locking.check import check
from builder.locking.compiled import carry_over
from builder.locking.explanations import reason_line
from builder.locking.lock import (
    Lock,
    load_edited,
    lock_path,
    read_lock,
    read_reasons,
    write_lock,
    write_reasons,
)
from builder.locking.resolver import resolve
from builder.locking.sums import is_as_written, is_cut_off
from builder.locking.uv import ALL
from builder.matrix.cells import Cell, select
from builder.patches.locking import lock_patches
from builder.patches.upstream import Hosting
from builder.wheels.policy import checked_recipes, lock_problems
from builder.workspace import Workspace, open_workspace


@dataclass(frozen=True)
class Outcome:
    """What became of one cell: its row of the summary, the exit code, and why it is not locked."""

    cell: Cell
    state: str
    lock: Lock | None
    exit_code: int = 0
    reason: str = ""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "lock", help="resolve cells into locks/<cell>.toml",
        description="Resolve cells into exact wheels and write their locks. A cell that cannot be "
                    "resolved does not stop the others.")
    parser.add_argument("cells", nargs="*", metavar="CELL", help="cell ids, globs allowed")
    parser.add_argument("--upgrade", action="append", default=[], metavar="PKG",
                        help="take the newest allowed version of this package; may be repeated")
    parser.add_argument("--upgrade-all", action="store_true",
                        help="take the newest allowed version of every package")
    parser.add_argument("--check", action="store_true",
                        help="only check the committed locks against the matrix, without network")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Lock or check the selected cells; return the exit code of the worst outcome."""
    workspace = open_workspace(options.matrix)
    cells = select(workspace.cells, options.cells)
    if options.check:
        if options.upgrade or options.upgrade_all:
            raise UsageError("--check changes nothing, so nothing can be upgraded",
                             where="command line", next_step="leave one of them out")
        recipes = checked_recipes(workspace, cells)
        check(cells, workspace.cells, workspace.locks, lambda cell, lock: [
            f"{problem.where}: {problem.what}: {problem.next_step}"
            for problem in lock_problems(cell, lock, recipes)])
        locked = sum(lock_path(workspace.locks, cell).exists() for cell in cells)
        console.info(f"{locked} locks answer the matrix; {len(cells) - locked} of {len(cells)} "
                     "cells have none, for the reasons in locks/unlocked.toml")
        return 0
    upgrade = (ALL,) if options.upgrade_all else tuple(options.upgrade)
    hosting = Hosting(user_sources(), workspace.cache)  # one: it remembers what was refused
    outcomes = []
    for cell in cells:
        outcomes.append(_lock_one(workspace, cell, upgrade, hosting))
        _write_reasons(workspace, outcomes)  # after each one: a killed run has said what it knew
    _summary(outcomes)
    return max(outcome.exit_code for outcome in outcomes)


def _lock_one(workspace: Workspace, cell: Cell, upgrade: tuple[str, ...], hosting: Hosting
              ) -> Outcome:
    """Resolve and write one cell; a failure is shown and leaves the old lock as it is."""
    if cell.blocked:
        return Outcome(cell, "blocked", None,
                       reason=f"blocked: {cell.blocked.reason} ({cell.blocked.link})")
    console.info(f"locking {cell.id} …")
    previous, sizes = _previous(workspace, cell)
    try:
        asked = previous.published if previous else None
        lock = lock_patches(cell, resolve(cell, user_sources(), asked, upgrade, sizes),
                            previous.patches if previous else (), workspace.root,
                            hosting, workspace.cache)
        lock, dropped = carry_over(previous, lock)
    except SparkyardError as error:
        return _failed(workspace, cell, error)
    for name in dropped:
        console.warn(f"{cell.id}: the compiled wheel of {name} fits no more, and the published one "
                     f"is locked; compile it again with {command('wheels', 'build', cell.id)}")
    write_lock(workspace.locks, lock)
    return Outcome(cell, changes(previous, lock), lock)


def _previous(workspace: Workspace, cell: Cell) -> tuple[Lock | None, KnownSizes]:
    """Return the lock whose versions are kept, stale or not, and the sizes to believe of it.

    A damaged lock keeps nothing. One that was edited keeps its versions; its sizes are measured
    again.
    """
    path = lock_path(workspace.locks, cell)
    if not path.exists():
        return None, {}
    try:
        lock = read_lock(path)
    except LockError as error:
        console.warn(f"{error.what}\n{path.name} is ignored: every version is chosen again")
        return None, {}
    if is_as_written(path) or is_cut_off(path):
        return lock, known_sizes(lock)
    console.warn(f"{path.name} was edited by hand or badly merged: its versions are kept where "
                 "they fit, its sizes are measured again")
    return lock, {}


def _failed(workspace: Workspace, cell: Cell, error: SparkyardError) -> Outcome:
    console.show_error(error)
    try:
        kept = load_edited(cell, workspace.locks)
    except LockError:
        reason = reason_line(error.what, workspace.root)
        return Outcome(cell, "not locked", None, error.exit_code, reason)
    console.warn(f"the last good lock of {cell.id} stays as it was")
    return Outcome(cell, "kept the last good lock", kept, error.exit_code)


def changes(old: Lock | None, new: Lock) -> str:
    """Say in a few words how ``new`` differs from ``old``."""
    if old is None:
        return "new"
    before = {wheel.name: wheel.version for wheel in old.wheels}
    after = {wheel.name: wheel.version for wheel in new.wheels}
    moved = [f"{name} {before.get(name, 'none')} -> {after.get(name, 'none')}"
             for name in sorted(before.keys() | after.keys())
             if before.get(name) != after.get(name)]
    if not moved:
        return ("unchanged" if old == new else "same versions, other patches"
                if old.patches != new.patches else "same versions")
    return ", ".join(moved[:4]) + (f" and {len(moved) - 4} more" if len(moved) > 4 else "")


def _write_reasons(workspace: Workspace, outcomes: Sequence[Outcome]) -> None:
    """Keep the reasons of cells that were not asked for, of those that the matrix still has."""
    reasons = read_reasons(workspace.locks)
    reasons.update((outcome.cell.id, outcome.reason) for outcome in outcomes)
    known = {cell.id for cell in workspace.cells}
    write_reasons(workspace.locks, [(cell, reason) for cell, reason in reasons.items()
                                    if cell in known and reason])


def _summary(outcomes: Sequence[Outcome]) -> None:
    rows = [(outcome.cell.id, outcome.state,
             len(outcome.lock.wheels) if outcome.lock else "-",
             console.size(outcome.lock.size) if outcome.lock else "-") for outcome in outcomes]
    console.table("", ["cell", "lock", "wheels", "size"], rows, stderr=True)
