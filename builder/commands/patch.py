"""``sparkyard patch``: check and apply the patches that the matrix declares.

``status`` shows what each patch is to each cell, without building; ``refresh`` locks the patches as
they are upstream now; ``wheel`` writes a patched wheel; ``series`` commits them for a source build.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from builder import console, limits
from builder.commands.option_types import user_path
from builder.errors import PatchError, SparkyardError, UsageError
from builder.fetch.wheels import fetch_lock
from builder.files import check_outputs, refuse_output
from builder.indexes.settings import user_sources
from builder.locking.lock import Lock, LockedWheel, load_for, lock_path
from builder.matrix.cells import Cell, select
from builder.matrix.patch import SHORT, wheel_name
from builder.patches.diff import parse_diff
from builder.patches.diffs import cache_errors, digest_of
from builder.patches.drift import proposals
from builder.patches.load import asking, load_series
from builder.patches.refresh import Refreshed, drifts, refresh, seen_in_wheels
from builder.patches.revision import Revision
from builder.patches.series import commit_series
from builder.patches.stage import Series, patched_wheel, revise
from builder.patches.status import Candidate, Verdict, failed, require, standings
from builder.patches.upstream import Hosting
from builder.report.patches import (
    Standings,
    refresh_document,
    show_refresh,
    show_standings,
    standings_document,
)
from builder.store.content_store import Store
from builder.workspace import Workspace, open_workspace

DIFF_STEP = "name a file in the format of `git diff`"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command and its verbs."""
    parser = subparsers.add_parser(
        "patch", help="check, refresh and apply patches",
        description="Check, refresh and apply the patches that the matrix declares. A verb's own "
                    "--help says more.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    status = verbs.add_parser(
        "status", help="show what each patch is to each cell; builds nothing",
        description="Show for each cell whether a patch applies, is already upstream, is "
                    "superseded, conflicts, or needs a compile. Exit code 6 where a required patch "
                    "fails.")
    new = verbs.add_parser(
        "refresh", help="lock the patches as they are upstream now",
        description="Ask upstream for each declared patch and write what it is now into the locks; "
                    "also name patches that a version no longer needs.")
    wheel = verbs.add_parser(
        "wheel", help="write a cell's patched wheel to a file",
        description="Write the wheels that the patches of a cell change, patched, to a folder.")
    series = verbs.add_parser(
        "series", help="commit a cell's patches to a git checkout",
        description="Commit the patches of a cell to a branch of a git checkout of the sources, "
                    "one commit a patch. The files of the checkout stay as they are.")
    for verb in (status, new):
        verb.add_argument("cells", nargs="*", metavar="CELL",
                          help="cell ids or globs (default: every locked cell)")
        verb.add_argument("--json", action="store_true", help="print one JSON document")
    for verb in (wheel, series):
        verb.add_argument("cells", nargs=1, metavar="CELL", help="cell id")
    wheel.add_argument("--output", type=user_path, default=".", metavar="DIR",
                       help="the folder to write to (default: this one)")
    series.add_argument("--checkout", type=user_path, required=True, metavar="DIR",
                        help="a git checkout of the package's sources")
    series.add_argument("--on", default="HEAD", metavar="COMMIT",
                        help="the commit to start from (default: HEAD)")
    for verb in (status, wheel, series):
        verb.add_argument("--file", dest="files", action="append", type=user_path, default=[],
                          metavar="DIFF", help="use this git diff instead of the declared patches; "
                          "may be repeated")
        verb.add_argument("--package", metavar="NAME",
                          help="the distribution that --file is for (default: the cell's "
                          "vLLM); without --file: only patches for this one")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run one verb; return 6 where a required patch fails a cell."""
    workspace = open_workspace(options.matrix)
    verbs = {"status": _status, "refresh": _refresh, "wheel": _wheel, "series": _series}
    return verbs[options.verb](workspace, options)


def _status(workspace: Workspace, options: argparse.Namespace) -> int:
    """Judge on every cell; one whose lock is stale is reported, the others go on."""
    standings: Standings = {}
    errors: dict[str, SparkyardError] = {}
    ask = asking(workspace)
    for cell in _locked_cells(workspace, options.cells):
        try:
            lock = load_for(cell, workspace.locks)
            series = _named(cell, lock, options) or load_series(workspace, cell, lock,
                                                                strict=False, ask=ask)
            standings[cell.id] = _judged(workspace, cell, lock, _of_package(cell, series, options))
        except SparkyardError as error:
            console.show_error(error)
            errors[cell.id] = error
    if options.json:
        console.document(standings_document(standings, errors))
    else:
        show_standings(standings)
    fails = any(failed([candidate for candidate, _ in pairs], [verdict for _, verdict in pairs])
                for pairs in standings.values())
    return max(_code(errors), 6 if fails else 0)


def _code(errors: Mapping[str, SparkyardError]) -> int:
    return max((error.exit_code for error in errors.values()), default=0)


def _locked_cells(workspace: Workspace, patterns: Sequence[str]) -> list[Cell]:
    """Return the cells that are locked, and those named one by one, whose error is to be seen."""
    return [cell for cell in select(workspace.cells, patterns)
            if cell.id in patterns or lock_path(workspace.locks, cell).exists()]


def _named(cell: Cell, lock: Lock, options: argparse.Namespace) -> Series | None:
    """Return the files that are named on the command line as a series, None where none is."""
    if not options.files:
        return None
    name = _wheel_name(cell, options)
    if lock.wheel(name) is None:
        raise UsageError(f"{cell.id} has no wheel of {name}", where="--package",
                         next_step="name a distribution of its lock")
    return {name: [_candidate(path) for path in options.files]}


def _of_package(cell: Cell, series: Series, options: argparse.Namespace) -> Series:
    """Return the patches of one wheel where ``--package`` names it, else all."""
    name = _wheel_name(cell, options)
    return {name: series.get(name, ())} if options.package else series


def _wheel_name(cell: Cell, options: argparse.Namespace) -> str:
    return wheel_name(options.package or "vllm", cell.vllm_package)


def _candidate(path: Path) -> Candidate:
    try:
        data = limits.read_file(path, limits.PATCH_BYTES, "patch")
    except OSError as error:
        raise UsageError(f"the patch cannot be read: {error.strerror}", where=str(path),
                         next_step=DIFF_STEP) from error
    try:
        parse_diff(data, str(path))
    except PatchError as error:
        raise UsageError(error.what, where=error.where, next_step=DIFF_STEP) from error
    # A version holds nothing but ASCII; two patches must not make the same one.
    tag = path.stem if re.search("[A-Za-z0-9]", path.stem) else digest_of(data)[:SHORT]
    return Candidate(path.name, tag, data)


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
    upstream = drifts(cells, hosting)
    edits = list(proposals({name: patch for cell in cells for name, patch in cell.patches.items()},
                           seen_in_wheels(workspace, done)))
    if options.json:
        console.document(refresh_document(upstream, done, edits, errors))
    else:
        show_refresh(upstream, done, edits, errors)
    return _code(errors)


def _one(workspace: Workspace, options: argparse.Namespace) -> tuple[Cell, Lock, Series]:
    chosen = select(workspace.cells, options.cells)
    if len(chosen) != 1:
        raise UsageError(f"{options.cells[0]} matches {len(chosen)} cells, but this command takes "
                         "one", where="command line", next_step="name one cell")
    lock = load_for(chosen[0], workspace.locks)
    series = _named(chosen[0], lock, options) or load_series(workspace, chosen[0], lock)
    return chosen[0], lock, _of_package(chosen[0], series, options)


def _wheel(workspace: Workspace, options: argparse.Namespace) -> int:
    """Write a cell's patched wheels; raises PatchError when a required patch does not apply."""
    there = options.output.is_dir()
    check_outputs(options.output / "a.whl" if there else options.output, protected=workspace.cache)
    cell, lock, series = _one(workspace, options)
    revisions = []
    for name, candidates in series.items():
        wheel = lock.wheel(name)
        if wheel is None or not candidates:
            continue
        source = _path(lock, wheel, cell, Store(workspace.cache))
        verdicts, revision = revise(wheel, source, candidates)
        for warning in require(cell.id, candidates, verdicts):
            console.warn(warning)
        if revision is not None:
            revisions.append((revision, source))
    for revision, source in revisions:  # all or none: every patch has been judged by now
        path = _written(revision, source, options.output)
        changed = sum(len(blob.data) for blob in revision.changes.values() if blob)
        console.info(f"{len(revision.changes)} files changed, {console.size(changed)}")
        console.out(str(path))
    if not revisions:
        console.info(f"no patch changes a wheel of {cell.id}; nothing was written")
    return 0


def _written(revision: Revision, source: Path, folder: Path) -> Path:
    try:
        folder.mkdir(exist_ok=True)
        refuse_output(folder / revision.file, inputs=[source])
        return patched_wheel(revision, source, folder)
    except OSError as error:
        raise UsageError(f"the wheel cannot be written: {error.strerror}", where=str(folder),
                         next_step="name another folder: --output DIR") from error


def _series(workspace: Workspace, options: argparse.Namespace) -> int:
    """Commit the series to a branch of a checkout."""
    cell, _, series = _one(workspace, options)
    name = _wheel_name(cell, options)
    done = commit_series(options.checkout, options.on, f"sparkyard/{cell.id}",
                         series.get(name, ()))
    for warning in done.warnings:
        console.warn(warning)
    console.table(f"branch {done.branch}", ("commit", "patch"), [
        (commit[:12], patch) for patch, commit in done.commits])
    return 0
