"""``sparkyard patch``: what patches come to on each cell, and a patched wheel as a file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from builder import console
from builder.cells import Cell, select
from builder.errors import UsageError
from builder.fetch import fetch_lock
from builder.lock import Lock, LockedWheel, load_for, lock_path
from builder.patches.stage import patched_wheel, revise
from builder.patches.status import Candidate, Verdict, require, standings
from builder.store import Store
from builder.workspace import Workspace, open_workspace


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command and its verbs."""
    parser = subparsers.add_parser("patch", help="judge and apply patches", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    status = verbs.add_parser("status", help="patches x cells, before anything is built")
    status.add_argument("cells", nargs="*", metavar="CELL",
                        help="cell ids or globs (default: every locked cell)")
    status.add_argument("--json", action="store_true", help="print one JSON document")
    wheel = verbs.add_parser("wheel", help="write the patched wheel of a cell as a file")
    wheel.add_argument("cells", nargs=1, metavar="CELL", help="cell id")
    wheel.add_argument("--output", type=Path, default=Path(), metavar="DIR",
                       help="where to write it (default: here)")
    for verb in (status, wheel):
        verb.add_argument("--file", dest="files", action="append", type=Path, default=[],
                          required=True, metavar="DIFF", help="a git diff; give several in order")
        verb.add_argument("--package", metavar="NAME",
                          help="the wheel that they are for (default: the cell's vLLM)")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Judge the patches on every cell, or write one patched wheel."""
    workspace = open_workspace(options.matrix)
    series = [_candidate(path) for path in options.files]
    if options.verb == "wheel":
        _write(workspace, options, series)
    else:
        _status(workspace, options, series)
    return 0


def _candidate(path: Path) -> Candidate:
    try:
        return Candidate(path.name, path.stem, path.read_bytes())
    except OSError as error:
        raise UsageError(f"the patch cannot be read: {error.strerror}", where=str(path),
                         next_step="name a git diff") from error


def _status(workspace: Workspace, options: argparse.Namespace, series: Sequence[Candidate]
            ) -> None:
    store = Store(workspace.cache)
    cells = [cell for cell in select(workspace.cells, options.cells)
             if lock_path(workspace.locks, cell).exists()]
    found = {cell.id: _judged(workspace, cell, options.package, series, store) for cell in cells}
    if options.json:
        console.document({"schema": 1, "cells": {
            name: [verdict.model_dump(mode="json") for verdict in verdicts]
            for name, verdicts in found.items()}})
        return
    console.table("", ("patch", *found), [
        (candidate.id, *(verdicts[number].standing for verdicts in found.values()))
        for number, candidate in enumerate(series)])
    for name, verdicts in found.items():
        for verdict in verdicts:
            if verdict.detail or verdict.conflicts:
                console.info(f"{name}: {verdict.line}")


def _judged(workspace: Workspace, cell: Cell, package: str | None, series: Sequence[Candidate],
            store: Store) -> tuple[Verdict, ...]:
    lock, wheel = _wheel(workspace, cell, package)
    return standings(_path(lock, wheel, cell, store), wheel.sha256, series, store.root)


def _wheel(workspace: Workspace, cell: Cell, package: str | None) -> tuple[Lock, LockedWheel]:
    lock = load_for(cell, workspace.locks)
    wheel = lock.wheel(package or cell.vllm_package)
    if wheel is None:
        raise UsageError(f"{cell.id} has no wheel of {package}", where="command line",
                         next_step="name a distribution of its lock")
    return lock, wheel


def _path(lock: Lock, wheel: LockedWheel, cell: Cell, store: Store) -> Path:
    """Return the wheel's file; only this wheel is fetched where the store lacks it."""
    only = lock.model_copy(update={"wheels": (wheel,)})
    return fetch_lock(only, store, cell.indexes).paths[wheel]


def _write(workspace: Workspace, options: argparse.Namespace, series: Sequence[Candidate]
           ) -> None:
    """Write one cell's patched wheel; raises PatchError when a patch does not apply."""
    chosen = select(workspace.cells, options.cells)
    if len(chosen) != 1:
        raise UsageError(f"{options.cells[0]} means {len(chosen)} cells", where="command line",
                         next_step="name one")
    lock, wheel = _wheel(workspace, chosen[0], options.package)
    source = _path(lock, wheel, chosen[0], Store(workspace.cache))
    verdicts, revision = revise(wheel, source, series)
    for word in require(chosen[0].id, series, verdicts):
        console.warn(word)
    if revision is None:
        console.info("nothing to write: every patch is in the published wheel")
        return
    options.output.mkdir(parents=True, exist_ok=True)
    path = patched_wheel(revision, source, options.output)
    changed = sum(len(blob.data) for blob in revision.changes.values() if blob)
    console.info(f"{len(revision.changes)} files changed, {console.size(changed)}")
    console.out(str(path))
