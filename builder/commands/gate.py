"""``sparkyard gate``: will it load on the cell's GPU? Decided without one, before a build."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path

from builder import console
from builder import labels as label
from builder.bases.facts import at_hand, committed, read_file_system
from builder.bases.state import Bases, read_bases
from builder.binaries.facts import BaseFacts
from builder.engine.client import Engine
from builder.errors import UsageError
from builder.fetch.wheels import fetch_lock
from builder.gate import closures
from builder.gate.explain import explain
from builder.gate.judge import GateReport, as_json
from builder.gate.metadata import check_lock
from builder.gate.named import any_image, cells_on, check_reference
from builder.gate.run import BaseSource, gate_cell, own_base
from builder.locking.lock import load_for, lock_path
from builder.matrix.cells import Cell
from builder.report import gate as report_gate
from builder.store.content_store import Store
from builder.workspace import Workspace, cache_folder, open_workspace


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("gate", help="judge closures without a GPU",
                                   description=__doc__)
    parser.add_argument("cells", nargs="*", metavar="CELL",
                        help="cell ids or globs (default: the locked cells whose wheels are here)")
    parser.add_argument("--wheels", nargs="+", type=Path, metavar="FILE", help="judge these files")
    parser.add_argument("--image", metavar="REF", help="judge a finished image, whoever built it")
    parser.add_argument("--base", metavar="BASE",
                        help="a base of the matrix, or any image: debian:bookworm-slim")
    parser.add_argument("--explain", metavar="CODE", help="say what a code means")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--sarif", type=Path, metavar="FILE", help="write the findings as SARIF")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Judge what is named, show it, return 1 where anything must not be built."""
    if options.explain is not None:
        report_gate.show_explanations(explain(options.explain))
        return 0
    _refuse_nonsense(options)
    reports = _reports(options)
    if options.sarif:
        report_gate.write_sarif(reports, options.sarif, options.matrix.parent / "locks")
    if options.json:
        console.document([as_json(report) for report in reports])
    else:
        for report in reports:
            report_gate.show(report)
    return 1 if any(report.errors for report in reports) else 0


def _refuse_nonsense(options: argparse.Namespace) -> None:
    """Refuse what cannot be answered or written, before anything is judged."""
    for option in ("image", "base"):
        if (named := getattr(options, option)) is not None:
            check_reference(named, f"--{option}")
    if sum(map(bool, (options.cells, options.wheels, options.image))) > 1:
        raise UsageError("cells, --wheels and --image are three different questions",
                         where="command line", next_step="ask one of them at a time")
    if options.sarif and not _writable(options.sarif):
        raise UsageError("no file can be written there", where=f"--sarif {options.sarif}",
                         next_step="name a file in a folder, which is made where it is missing")


def _writable(path: Path) -> bool:
    """Say whether a file could be written: no folder is there, and what it is in is one."""
    above = next(folder for folder in path.absolute().parents if folder.exists())
    return not path.is_dir() and above.is_dir()


def _reports(options: argparse.Namespace) -> list[GateReport]:
    if options.wheels:
        return [_wheels(options)]
    workspace = open_workspace(options.matrix)
    if options.image:
        return [_image(workspace, options.image)]
    bases = read_bases(workspace)
    return [_gate(workspace, bases, cell, options.base) for cell in _cells(workspace, options)]


def _cells(workspace: Workspace, options: argparse.Namespace) -> Sequence[Cell]:
    """Return the cells that are meant: without a name, those whose wheels are here."""
    base = options.base if options.base in workspace.matrix.bases else None
    cells = cells_on(workspace.cells, options.cells, base)
    if options.cells:
        return cells
    at_hand_already = [cell for cell in cells if _is_fetched(workspace, cell)]
    console.info(f"judging {len(at_hand_already)} of {len(cells)} cells: those whose wheels are "
                 "here; name others to fetch them")
    return at_hand_already


def _is_fetched(workspace: Workspace, cell: Cell) -> bool:
    """Say whether a cell is locked, may be built, and has all its wheels in the store."""
    if cell.blocked or not lock_path(workspace.locks, cell).exists():
        return False
    store = Store(workspace.cache)
    return all(store.wheel_path(wheel).exists()
               for wheel in load_for(cell, workspace.locks).wheels)


def _gate(workspace: Workspace, bases: Bases, cell: Cell, base: str | None) -> GateReport:
    """Judge a locked cell on its own base, or on any image that ``base`` names."""
    lock = load_for(cell, workspace.locks)
    source = own_base(workspace, bases.get((cell.base_name, cell.platform)))
    if base and base not in workspace.matrix.bases:
        facts = any_image(base, cell.platform, workspace.cache, workspace.matrix.bases)
        source = BaseSource(facts.digest, lambda: facts)
    return gate_cell(workspace, cell, lock, source,
                     lambda: fetch_lock(lock, Store(workspace.cache), cell.indexes))


def _wheels(options: argparse.Namespace) -> GateReport:
    for path in options.wheels:
        _refuse_unreadable(path)
    base = None
    if options.base:
        base = _named_base(options)
    with console.progress("gate") as meter:
        return closures.judge_wheels(options.wheels, base, cache_folder(), meter.advance)


def _refuse_unreadable(path: Path) -> None:
    try:
        path.open("rb").close()
    except IsADirectoryError as error:
        raise UsageError("a folder is no wheel", where=str(path),
                         next_step=f"name the wheels in it: {path}/*.whl") from error
    except OSError as error:
        raise UsageError(f"this wheel cannot be opened: {error.strerror}", where=str(path),
                         next_step="name files that are there and that you may read") from error


def _named_base(options: argparse.Namespace) -> BaseFacts:
    """Return a base of the matrix where there is one in this folder, else any image."""
    machine = next((name for path in options.wheels for name in ("aarch64", "x86_64")
                    if path.stem.endswith(name)), "aarch64")
    platform = {"aarch64": "linux/arm64", "x86_64": "linux/amd64"}[machine]
    bases: Collection[str] = ()
    if options.matrix.is_file():
        workspace = open_workspace(options.matrix)
        locked = read_bases(workspace).get((options.base, platform))
        facts = committed(workspace.locks, locked) if locked else None
        if facts is not None:
            return facts
        bases = workspace.matrix.bases
    return any_image(options.base, platform, cache_folder(), bases)


def _image(workspace: Workspace, reference: str) -> GateReport:
    """Judge a finished image; one of ours is held against its lock as well."""
    engine = Engine.connect()
    image = at_hand(engine, reference, None)
    system = read_file_system(engine, image, workspace.cache, reference)
    cell = next((cell for cell in workspace.cells
                 if cell.id == image.labels.get(label.CELL)), None)
    lock = load_for(cell, workspace.locks) if cell else None
    mine = lock is not None and lock.digest == image.labels.get(label.LOCK)
    found = check_lock(system.wheels, lock) if lock and mine else ()
    return closures.judge_image(reference, system, cell, found)
