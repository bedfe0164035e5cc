"""``sparkyard cache``: what the cache holds, and removing what no current lock needs."""

from __future__ import annotations

import argparse

from builder import console
from builder.disk import free_bytes
from builder.lock import LockedWheel, lock_path, read_lock
from builder.prune import contents, needed, prune, usage
from builder.store import Store
from builder.workspace import Workspace, open_workspace


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "cache", help="show or prune the cache of wheels and layers", description=__doc__)
    parser.add_argument("action", nargs="?", choices=("show", "prune"), default="show",
                        help="show what it holds (default), or remove what no lock needs")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    parser.add_argument("--all", action="store_true", help="remove what locks need, too")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Show the cache, or prune it and show what went."""
    workspace = open_workspace(options.matrix)
    store = Store(workspace.cache)
    if options.action == "show":
        _show(store, workspace)
        return 0
    keep = frozenset[str]() if options.all else needed(store, locked_wheels(workspace))
    gone = prune(store, keep, dry_run=options.dry_run)
    title = "would be removed" if options.dry_run else "removed"
    console.table(title, ("kind", "files", "bytes"), [
        (row.kind, row.files, console.size(row.size)) for row in usage(gone)])
    return 0


def locked_wheels(workspace: Workspace) -> tuple[LockedWheel, ...]:
    """Return the wheels of every lock of the checkout, stale ones too; raises LockError.

    A damaged lock stops the pruning: what it needs is not known.
    """
    paths = [lock_path(workspace.locks, cell) for cell in workspace.cells]
    return tuple(wheel for path in paths if path.exists() for wheel in read_lock(path).wheels)


def _show(store: Store, workspace: Workspace) -> None:
    held = contents(store)
    keep = needed(store, locked_wheels(workspace))
    unneeded = {row.kind: row for row in usage(item for item in held if item.digest not in keep)}
    console.table(f"{store.root} ({console.size(free_bytes(store.root))} free)",
                  ("kind", "files", "bytes", "not needed"),
                  [(row.kind, row.files, console.size(row.size),
                    console.size(unneeded[row.kind].size)) for row in usage(held)])
