"""``sparkyard patch``: what patches come to on each cell, before anything is built.

``status`` judges, ``refresh`` accepts what upstream has now and says what is no longer needed,
``wheel`` writes a patched wheel, ``series`` makes commits for a source build.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from builder import console
from builder.cells import Cell, select
from builder.errors import SparkyardError, UsageError
from builder.fetch import fetch_lock
from builder.indexes import user_sources
from builder.lock import Lock, LockedWheel, load_for, lock_path
from builder.patches.declared import wheel_name
from builder.patches.diffs import cache_errors
from builder.patches.drift import Drift, proposals
from builder.patches.load import load_series
from builder.patches.refresh import Refreshed, drifts, refresh, seen_in_wheels
from builder.patches.revision import Revision
from builder.patches.series import commit_series
from builder.patches.stage import Series, patched_wheel, revise
from builder.patches.status import Candidate, Standing, Verdict, failed, require, standings
from builder.patches.upstream import Hosting
from builder.store import Store
from builder.workspace import Workspace, open_workspace

WIDE = 5  # cells side by side in a table; more of them stand below each other
Found = dict[str, list[tuple[Candidate, Verdict]]]  # by cell


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command and its verbs."""
    parser = subparsers.add_parser("patch", help="judge and apply patches", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    status = verbs.add_parser("status", help="patches x cells, before anything is built")
    new = verbs.add_parser("refresh", help="lock what upstream has now, say what drifted")
    wheel = verbs.add_parser("wheel", help="write the patched wheel of a cell as a file")
    series = verbs.add_parser("series", help="commit a cell's patches to a checkout of its sources")
    for verb in (status, new):
        verb.add_argument("cells", nargs="*", metavar="CELL",
                          help="cell ids or globs (default: every locked cell)")
        verb.add_argument("--json", action="store_true", help="print one JSON document")
    for verb in (wheel, series):
        verb.add_argument("cells", nargs=1, metavar="CELL", help="cell id")
    wheel.add_argument("--output", type=Path, default=Path(), metavar="DIR",
                       help="where to write it (default: here)")
    series.add_argument("--checkout", type=Path, required=True, metavar="DIR",
                        help="a git checkout of the package's sources")
    series.add_argument("--on", default="HEAD", metavar="COMMIT",
                        help="the commit to begin from (default: HEAD)")
    for verb in (status, wheel, series):
        verb.add_argument("--file", dest="files", action="append", type=Path, default=[],
                          metavar="DIFF", help="these git diffs, in order, in place of the "
                          "declared patches")
        verb.add_argument("--package", metavar="NAME",
                          help="the wheel that they are for (default: the cell's vLLM)")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run one verb; return 6 where a required patch fails a cell."""
    workspace = open_workspace(options.matrix)
    verbs = {"status": _status, "refresh": _refresh, "wheel": _wheel, "series": _series}
    return verbs[options.verb](workspace, options)


def _status(workspace: Workspace, options: argparse.Namespace) -> int:
    """Judge on every cell; a cell whose lock is stale is named and hurts itself only."""
    found: Found = {}
    errors: dict[str, SparkyardError] = {}
    for cell in _locked_cells(workspace, options.cells):
        try:
            lock = load_for(cell, workspace.locks)
            found[cell.id] = _judged(workspace, cell, lock,
                                     _asked(workspace, cell, lock, options, strict=False))
        except SparkyardError as error:
            console.show_error(error)
            errors[cell.id] = error
    if options.json:
        console.document({"schema": 1, "errors": _as_json(errors), "cells": {
            name: [verdict.model_dump(mode="json") for _, verdict in pairs]
            for name, pairs in found.items()}})
    else:
        _show(found)
    fails = any(failed([one for one, _ in pairs], [verdict for _, verdict in pairs])
                for pairs in found.values())
    return max(_code(errors), 6 if fails else 0)


def _as_json(errors: Mapping[str, SparkyardError]) -> dict[str, dict[str, str]]:
    return {cell: {"kind": error.kind, "what": error.what} for cell, error in errors.items()}


def _code(errors: Mapping[str, SparkyardError]) -> int:
    return max((error.exit_code for error in errors.values()), default=0)


def _locked_cells(workspace: Workspace, patterns: Sequence[str]) -> list[Cell]:
    """Return the cells that are locked, and those named one by one, whose error is to be seen."""
    return [cell for cell in select(workspace.cells, patterns)
            if cell.id in patterns or lock_path(workspace.locks, cell).exists()]


def _asked(workspace: Workspace, cell: Cell, lock: Lock, options: argparse.Namespace, *,
           strict: bool) -> Series:
    """Return the files that are named, or the locked patches; ``--package`` takes one wheel's."""
    name = _wheel_name(cell, options)
    if not options.files:
        series = load_series(workspace, cell, lock, strict=strict)
        return {name: series.get(name, ())} if options.package else series
    if lock.wheel(name) is None:
        raise UsageError(f"{cell.id} has no wheel of {name}", where="command line",
                         next_step="name a distribution of its lock")
    return {name: [_candidate(path) for path in options.files]}


def _wheel_name(cell: Cell, options: argparse.Namespace) -> str:
    return wheel_name(options.package or "vllm", cell.vllm_package)


def _candidate(path: Path) -> Candidate:
    try:
        return Candidate(path.name, path.stem, path.read_bytes())
    except OSError as error:
        raise UsageError(f"the patch cannot be read: {error.strerror}", where=str(path),
                         next_step="name a git diff") from error


def _judged(workspace: Workspace, cell: Cell, lock: Lock, series: Series
            ) -> list[tuple[Candidate, Verdict]]:
    store, pairs = Store(workspace.cache), []
    for name, candidates in series.items():
        wheel = lock.wheel(name)
        if wheel is None or not candidates:
            continue
        verdicts = standings(_path(lock, wheel, cell, store), wheel.sha256, candidates, store.root)
        pairs += list(zip(candidates, verdicts, strict=True))
    return pairs


def _path(lock: Lock, wheel: LockedWheel, cell: Cell, store: Store) -> Path:
    """Return the wheel's file; only this wheel is fetched where the store lacks it."""
    only = lock.model_copy(update={"wheels": (wheel,)})
    with cache_errors(store.root):
        return fetch_lock(only, store, cell.indexes).paths[wheel]


def _show(found: Found) -> None:
    """Print patches x cells: side by side while that fits, else a row each; then the reasons."""
    patched = {name: pairs for name, pairs in found.items() if pairs}
    if not patched:
        console.info(f"no patch is for any of these: {', '.join(found)}" if found else
                     "no cell could be judged")
        return
    if len(patched) <= WIDE:
        by_cell = [_rows(pairs) for pairs in patched.values()]
        rows = dict.fromkeys(row for cell in by_cell for row in cell)
        console.table("", ("patch", *patched), [
            (row[0], *(cell.get(row, "") for cell in by_cell)) for row in rows])
    else:
        console.table("", ("patch", "cell", "standing"), [
            (verdict.id, name, verdict.standing)
            for name, pairs in patched.items() for _, verdict in pairs])
    for name, pairs in patched.items():
        for candidate, verdict in pairs:
            if verdict.detail or verdict.conflicts:
                weight = "" if candidate.required else " (optional)"
                console.info(f"{name}: {verdict.line}{weight}")


def _rows(pairs: Sequence[tuple[Candidate, Verdict]]) -> dict[tuple[str, int], Standing]:
    """Return the standings by name and its count: two parts of one request have the same name."""
    names = [verdict.id for _, verdict in pairs]
    return {(verdict.id, names[:at].count(verdict.id)): verdict.standing
            for at, (_, verdict) in enumerate(pairs)}


def _refresh(workspace: Workspace, options: argparse.Namespace) -> int:
    """Lock patches anew; one cell's failure does not stop the others."""
    hosting = Hosting(user_sources(), workspace.cache)
    done: list[Refreshed] = []
    errors: dict[str, SparkyardError] = {}
    cells = [cell for cell in _locked_cells(workspace, options.cells) if cell.patches]
    for cell in cells:
        try:
            done.append(refresh(workspace, cell, hosting))
        except SparkyardError as error:
            console.show_error(error)
            errors[cell.id] = error
    found = drifts(cells, hosting)
    edits = list(proposals({name: patch for cell in cells for name, patch in cell.patches.items()},
                           seen_in_wheels(workspace, done)))
    if options.json:
        console.document({**_document(found, done, edits), "errors": _as_json(errors)})
    else:
        _show_drift(found, done, edits)
        if not errors and (idle := _idle(found, done)):
            console.info(f"no wheel of these cells needs {', '.join(idle)}")
    return _code(errors)


def _document(found: Sequence[Drift], done: Sequence[Refreshed], edits: Sequence[str]
              ) -> dict[str, object]:
    return {"schema": 1, "patches": [one.model_dump() for one in found], "proposals": list(edits),
            "cells": {one.cell.id: {
                "changed": one.changed, "moved": list(one.moved),
                "patches": [patch.model_dump() for patch in one.lock.patches]} for one in done}}


def _idle(found: Sequence[Drift], done: Sequence[Refreshed]) -> list[str]:
    """Return the patches that no cell's wheels need: perhaps a package's name is misspelt."""
    needed = {patch.name for one in done for patch in one.lock.patches}
    return [one.name for one in found if one.name not in needed]


def _show_drift(found: Sequence[Drift], done: Sequence[Refreshed], edits: Sequence[str]) -> None:
    for one in done:
        for moved in one.moved:
            console.info(f"{one.cell.id}: accepted: {moved}")
    if not found:
        console.info("no locked cell has a patch")
        return
    console.table("", ("patch", "upstream", "state", ""), [
        (one.name, one.source, one.state, one.detail) for one in found])
    console.table("", ("cell", "lock", "patches", "unresolved"), [
        (one.cell.id, "written" if one.changed else "unchanged", len(one.lock.patches),
         sum(bool(patch.why) for patch in one.lock.patches)) for one in done])
    for edit in edits:
        console.out(f"matrix.toml: {edit}")


def _one(workspace: Workspace, options: argparse.Namespace) -> tuple[Cell, Lock, Series]:
    chosen = select(workspace.cells, options.cells)
    if len(chosen) != 1:
        raise UsageError(f"{options.cells[0]} means {len(chosen)} cells", where="command line",
                         next_step="name one")
    lock = load_for(chosen[0], workspace.locks)
    return chosen[0], lock, _asked(workspace, chosen[0], lock, options, strict=True)


def _wheel(workspace: Workspace, options: argparse.Namespace) -> int:
    """Write a cell's patched wheels; raises PatchError when a required patch does not apply."""
    cell, lock, series = _one(workspace, options)
    revisions = []
    for name, candidates in series.items():
        wheel = lock.wheel(name)
        if wheel is None or not candidates:
            continue
        source = _path(lock, wheel, cell, Store(workspace.cache))
        verdicts, revision = revise(wheel, source, candidates)
        for word in require(cell.id, candidates, verdicts):
            console.warn(word)
        if revision is not None:
            revisions.append((revision, source))
    for revision, source in revisions:  # all or none: every patch has been judged by now
        path = _written(revision, source, options.output)
        changed = sum(len(blob.data) for blob in revision.changes.values() if blob)
        console.info(f"{len(revision.changes)} files changed, {console.size(changed)}")
        console.out(str(path))
    if not revisions:
        console.info(f"{cell.id} has no patch that changes a wheel; nothing is written")
    return 0


def _written(revision: Revision, source: Path, folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return patched_wheel(revision, source, folder)
    except OSError as error:
        raise UsageError(f"the wheel cannot be written: {error.strerror}", where=str(folder),
                         next_step="name another folder (--output)") from error


def _series(workspace: Workspace, options: argparse.Namespace) -> int:
    """Commit the series to a branch of a checkout."""
    cell, _, series = _one(workspace, options)
    name = _wheel_name(cell, options)
    done = commit_series(options.checkout, options.on, f"sparkyard/{cell.id}",
                         series.get(name, ()))
    for word in done.words:
        console.warn(word)
    console.table(f"branch {done.branch}", ("commit", "patch"), [
        (commit[:12], patch) for patch, commit in done.commits])
    return 0
