"""Show what the cache folder holds, or remove what nobody has needed lately."""

from __future__ import annotations

import argparse
import math

from builder import console
from builder.commands.option_types import refuse_beside
from builder.files import free_bytes
from builder.locking.lock import lock_path, read_lock
from builder.record.expired import KEEP_PER_CELL, expired
from builder.store.content_store import Store
from builder.store.prune import Removable, removable, remove, usage
from builder.workspace import Workspace, open_workspace

DEFAULT_DAYS = 14.0
MOST_DAYS = 36_500.0
EPILOG = f"""`prune` removes wheels and compiled modules that no lock of this checkout names,
layers, partial downloads, records and logs. Of the records it keeps the newest {KEEP_PER_CELL} of
each cell, and for each image the last of each level, which its tag depends on. Images on the engine
are not touched."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "cache", help="show what the cache holds, or prune it", description=__doc__, epilog=EPILOG)
    parser.add_argument("action", nargs="?", choices=("show", "prune"), default="show",
                        help="what to do (default: %(default)s)")
    parser.add_argument("--days", type=_days, metavar="N",
                        help=f"prune what was not used for N days (default: {DEFAULT_DAYS:g})")
    parser.add_argument("--all", action="store_true",
                        help="prune every wheel, layer, compiled module and partial download, "
                        "needed or not")
    parser.add_argument("--dry-run", action="store_true",
                        help="only say what would be removed")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Show the cache, or prune it and say what that freed."""
    if options.action == "show":
        refuse_beside(options, "show", all="--all", days="--days")
    looks_only = options.action == "show" or options.dry_run
    workspace = open_workspace(options.matrix, make_cache=not looks_only)
    if options.action == "show":
        _show(workspace)
        return 0
    days = DEFAULT_DAYS if options.days is None else options.days
    items = _items(workspace, days, everything=options.all)
    if not options.dry_run:
        remove(Store(workspace.cache), items)
    for item in items:
        console.debug(f"{item.what}: {console.size(item.size)}")
    verb = "would free" if options.dry_run else "freed"
    files = sum(len(item.paths) for item in items)
    console.info(f"{verb} {console.size(sum(item.size for item in items))} in {files} files")
    return 0


def locked_digests(workspace: Workspace) -> set[str]:
    """Return the sha256 of every wheel that a lock names, stale locks' too, and keys of compiles.

    Raises LockError for a damaged lock: what it needs is not known, so nothing is pruned.
    """
    paths = [lock_path(workspace.locks, cell) for cell in workspace.cells]
    locks = [read_lock(path) for path in paths if path.exists()]
    return {digest for lock in locks for digest in (
        *(wheel.sha256 for wheel in lock.wheels),
        *(part for entry in lock.compiled for part in (entry.key, entry.sha256)))}


def _items(workspace: Workspace, days: float, *, everything: bool) -> list[Removable]:
    locked = set[str]() if everything else locked_digests(workspace)
    return [*removable(workspace.cache, locked, -1.0 if everything else days),
            *expired(workspace.cache, days)]


def _days(text: str) -> float:
    """Read a number of days from the command line; refuses what is no span of time."""
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not 0 <= days <= MOST_DAYS:  # false for nan, too
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {MOST_DAYS:g}")
    return days


def _show(workspace: Workspace) -> None:
    rows = [(folder.name, folder.files, console.size(folder.size))
            for folder in usage(workspace.cache)]
    console.table(f"{workspace.cache} ({console.size(free_bytes(workspace.cache))} free)",
                  ("folder", "files", "bytes"), rows)
