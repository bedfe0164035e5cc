"""Fetch the locked wheels into the cache; a download that was cut off is continued."""

from __future__ import annotations

import argparse

from builder import console
from builder.fetch.wheels import FetchedWheels
from builder.locking.lock import load_for, lock_path
from builder.matrix.cells import Cell, select
from builder.store.content_store import Store
from builder.wheels.stage import fetch_cell
from builder.workspace import Workspace, open_workspace

COLUMNS = ("cell", "wheels", "bytes", "from cache", "fetched", "fetched bytes", "time")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "fetch", help="fetch the locked wheels into the cache", description=__doc__)
    parser.add_argument("cells", nargs="*", metavar="CELL",
                        help="cell ids or globs (default: every locked cell)")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Fetch cell by cell, then show what each one took."""
    workspace = open_workspace(options.matrix)
    locks = [(cell, load_for(cell, workspace.locks)) for cell in _chosen(workspace, options.cells)]
    store = Store(workspace.cache)
    rows = [_row(cell, fetch_cell(workspace.registry, cell, lock, store))
            for cell, lock in locks]
    console.table("fetched", COLUMNS, rows)
    return 0


def _chosen(workspace: Workspace, patterns: list[str]) -> list[Cell]:
    """Return the cells asked for; where none is named, those that have a lock at all."""
    cells = select(workspace.cells, patterns)
    if patterns:
        return list(cells)
    return [cell for cell in cells if lock_path(workspace.locks, cell).exists()]


def _row(cell: Cell, done: FetchedWheels) -> tuple[object, ...]:
    total = sum(wheel.size for wheel in done.paths)
    return (cell.id, len(done.paths), console.size(total), len(done.paths) - len(done.fetched),
            len(done.fetched), console.size(done.fetched_bytes), console.seconds(done.seconds))
