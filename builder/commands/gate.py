"""``gate``: will it load on the cell's GPU? Decided without one, before a build."""

from __future__ import annotations

import argparse
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from builder import console
from builder import labels as label
from builder.bases.facts import at_hand, committed, read_file_system
from builder.bases.state import Bases, read_bases
from builder.binaries.facts import BaseFacts
from builder.cache_folder import named_folder
from builder.commands.option_types import refuse_beside, user_path
from builder.engine.client import Engine
from builder.errors import UsageError, command
from builder.files import check_outputs
from builder.gate import closures
from builder.gate.explain import explain
from builder.gate.judge import GateReport, as_json
from builder.gate.metadata import check_lock
from builder.gate.named import any_image, cells_on
from builder.gate.run import BaseSource, gate_cell, own_base
from builder.locking.lock import load_for, lock_path
from builder.matrix.cells import Cell
from builder.registry.reference import check_reference
from builder.report import gate as report_gate
from builder.store.content_store import Store
from builder.wheels.stage import fetch_cell
from builder.workspace import Workspace, cache_folder, open_workspace


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "gate", help="judge wheels or an image without a GPU", description=(
            "Will it load on the GPU? Judge a locked cell, loose wheels or a finished image: "
            "versions, GPU code, libraries, symbols, metadata and the toolchain. Nothing of it is "
            "run. Exit code 1: at least one finding is an error."))
    parser.add_argument("cells", nargs="*", metavar="CELL",
                        help="cell ids or globs (default: locked cells whose wheels are fetched)")
    parser.add_argument("--wheels", nargs="+", type=user_path, metavar="FILE",
                        help="judge these wheel files as one installation")
    parser.add_argument("--image", metavar="REF", help="judge a finished image of any origin")
    parser.add_argument("--base", metavar="BASE",
                        help="a base of the matrix, or any image: debian:bookworm-slim")
    parser.add_argument("--explain", metavar="CODE",
                        help="explain a code, or the old number of a failure, and stop")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--sarif", type=user_path, metavar="FILE",
                        help="also write the findings as SARIF 2.1.0; its folder must exist")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Judge what is named and show it; return 1 where a finding is an error."""
    if options.explain is not None:
        refuse_beside(options, "--explain", cells="CELL", wheels="--wheels", image="--image",
                      base="--base", sarif="--sarif", json="--json")
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
        raise UsageError("cells, --wheels and --image cannot be combined", where="command line",
                         next_step="run the gate once for each of them")
    if options.image and options.base:
        raise UsageError("--base has no meaning for an image, which is its own base",
                         where="command line", next_step="leave out --base")
    if options.sarif:
        check_outputs(options.sarif, inputs=[options.matrix, *(options.wheels or ())],
                      protected=named_folder())


def _reports(options: argparse.Namespace) -> list[GateReport]:
    if options.wheels:
        return [_wheels(options)]
    workspace = open_workspace(options.matrix)
    if options.image:
        return [_image(workspace, options.image)]
    bases = read_bases(workspace)
    return [_gate(workspace, bases, cell, options.base) for cell in _cells(workspace, options)]


def _cells(workspace: Workspace, options: argparse.Namespace) -> Sequence[Cell]:
    """Return the cells that are named; without a name, those whose wheels are fetched."""
    base = options.base if options.base in workspace.matrix.bases else None
    cells = cells_on(workspace.cells, options.cells, base)
    if options.cells:
        return cells
    obstacles = {cell.id: _obstacle(workspace, cell) for cell in cells}
    fetched = [cell for cell in cells if not obstacles[cell.id]]
    others = _by_obstacle(obstacles)
    if not fetched:
        raise UsageError(f"no cell was judged, as none has its wheels at hand{others}",
                         where="command line", next_step=_fetch_step(obstacles))
    console.info(f"judging the {len(fetched)} of {len(cells)} cells whose wheels are fetched"
                 f"{others}")
    if others:
        console.info(_fetch_step(obstacles))
    return fetched


def _obstacle(workspace: Workspace, cell: Cell) -> str:
    """Say why a cell cannot be judged with what is at hand; nothing where it can."""
    if cell.blocked:
        return "blocked"
    if not lock_path(workspace.locks, cell).exists():
        return "not locked"
    store = Store(workspace.cache)
    wheels = load_for(cell, workspace.locks).wheels
    return "" if all(store.wheel_path(wheel).exists() for wheel in wheels) else "not fetched"


def _by_obstacle(obstacles: Mapping[str, str]) -> str:
    """Name the cells that are not judged, a line for each reason."""
    lines = []
    for reason in sorted(set(obstacles.values()) - {""}):
        cells = [cell for cell, found in obstacles.items() if found == reason]
        lines.append(f"\n  {reason}: {', '.join(cells)}")
    return "; not judged:" + "".join(lines) if lines else ""


def _fetch_step(obstacles: Mapping[str, str]) -> str:
    """Say how cells are judged whose wheels are not at hand."""
    example = next((cell for cell, found in obstacles.items() if found == "not fetched"), None)
    if example is None:
        return f"{command('plan')} shows what the cells lack"
    return (f"name the cells to judge, and their wheels are fetched: {command('gate', example)}; "
            f"{command('plan')} shows how much that is")


def _gate(workspace: Workspace, bases: Bases, cell: Cell, base: str | None) -> GateReport:
    """Judge a locked cell on its own base, or on any image that ``base`` names."""
    lock = load_for(cell, workspace.locks)
    source = own_base(workspace, bases.get((cell.base_name, cell.platform)))
    if base and base not in workspace.matrix.bases:
        facts = any_image(base, cell.platform, workspace.cache, workspace.matrix.bases)
        source = BaseSource(facts.digest, lambda: facts)
    return gate_cell(workspace, cell, lock, source,
                     lambda: fetch_cell(workspace.registry, cell, lock,
                                        Store(workspace.cache)))


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
        kind = path.stat().st_mode
        if stat.S_ISREG(kind):
            path.open("rb").close()
            return
    except OSError as error:
        raise UsageError(f"this wheel cannot be opened: {error.strerror}", where=str(path),
                         next_step="name files that exist and that you may read") from error
    raise UsageError("this is not a wheel but a "
                     + ("folder" if stat.S_ISDIR(kind) else "pipe, device or socket"),
                     where=str(path), next_step=f"name files: {path}/*.whl"
                     if stat.S_ISDIR(kind) else "name the wheel's file")


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
    """Judge a finished image; one of ours is compared with its lock too.

    The lock is read first: reading the image takes minutes, and a stale lock stops everything.
    """
    engine = Engine.connect()
    image = at_hand(engine, reference, None)
    cell = next((cell for cell in workspace.cells
                 if cell.id == image.labels.get(label.CELL)), None)
    lock = load_for(cell, workspace.locks) if cell else None
    system = read_file_system(engine, image, workspace.cache, reference)
    if cell is None or lock is None:
        return closures.judge_image(reference, system)
    if lock.digest == image.labels.get(label.LOCK):
        return closures.judge_image(reference, system, cell, check_lock(system.wheels, lock))
    report = closures.judge_image(reference, system, cell)
    return replace(report, not_judged=(
        *report.not_judged,
        f"what is locked (the image is of another lock than locks/{cell.id}.toml)"))
