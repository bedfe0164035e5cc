"""``sparkyard cache``: what the cache folder holds, and removing what nobody has needed lately."""

from __future__ import annotations

import argparse

from builder import console
from builder.errors import UsageError
from builder.files import free_bytes
from builder.locking.lock import lock_path, read_lock
from builder.store.content_store import Store
from builder.store.prune import held, remove, unneeded
from builder.workspace import Workspace, open_workspace

DEFAULT_DAYS = 14.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "cache", help="show what the cache holds, or prune it", description=__doc__)
    parser.add_argument("action", nargs="?", choices=("show", "prune"), default="show")
    parser.add_argument("--days", type=float, default=DEFAULT_DAYS, metavar="N",
                        help="prune what was not used for N days (default: %(default)g)")
    parser.add_argument("--all", action="store_true",
                        help="prune every wheel, layer and cut-off download, needed or not")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Show the cache, or prune it and say what that freed."""
    workspace = open_workspace(options.matrix)
    store = Store(workspace.cache)
    if options.action == "show":
        _show(store)
        return 0
    if options.days < 0:
        raise UsageError("--days must not be negative", where="command line")
    locked = set[str]() if options.all else locked_digests(workspace)
    items = unneeded(store, locked, -1.0 if options.all else options.days)
    if not options.dry_run:
        remove(store, items)
    for item in items:
        console.debug(f"{item.what}: {console.size(item.size)}")
    verb = "would free" if options.dry_run else "freed"
    console.info(f"{verb} {console.size(sum(item.size for item in items))} in {len(items)} files")
    return 0


def locked_digests(workspace: Workspace) -> set[str]:
    """Return the sha256 of every wheel that a lock names, stale locks' too.

    Raises LockError for a damaged lock: what it needs is not known, so nothing is pruned.
    """
    paths = [lock_path(workspace.locks, cell) for cell in workspace.cells]
    return {wheel.sha256 for path in paths if path.exists() for wheel in read_lock(path).wheels}


def _show(store: Store) -> None:
    rows = [(one.name, one.files, console.size(one.size)) for one in held(store.root)]
    console.table(f"{store.root} ({console.size(free_bytes(store.root))} free)",
                  ("folder", "files", "bytes"), rows)
