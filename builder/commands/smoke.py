"""``sparkyard smoke``: run an image and judge what it shows, by level."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from builder import console, report
from builder.cells import Cell, select
from builder.diagnose import diagnose, load_issues
from builder.engine import Engine, ImageFacts
from builder.errors import EngineError, UsageError
from builder.fetch import fetch_lock
from builder.gate.run import gate_cell, own_base
from builder.image import local_name
from builder.lock import Lock, load_for, write_text
from builder.patches.revision import as_patched
from builder.pins import check_pin
from builder.recipes import Recipe, load_recipe
from builder.record import Record, free_path, now, records_folder, write_record
from builder.smoke.agreement import NAME, agreement
from builder.smoke.gpu import Where
from builder.smoke.levels import generate, look
from builder.smoke.server import serve_and_ask
from builder.smoke.verdict import Check, Status
from builder.store import Store
from builder.workspace import Workspace, open_workspace

TINY = "tiny-gemma4"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("smoke", help="run an image and judge what it answers",
                                   description=__doc__)
    parser.add_argument("cell", metavar="CELL", help="cell id")
    parser.add_argument("--base", help="take the cell on this base")
    parser.add_argument("--level", choices=("1a", "1b", "2"),
                        help="1a: look into it; 1b: vLLM in process; 2: the real server "
                             "(default: the highest that this host can show)")
    parser.add_argument("--recipe", default=TINY, help=f"the model to serve (default: {TINY})")
    parser.add_argument("--model", type=Path, metavar="DIR",
                        help="another folder for the tiny model")
    parser.add_argument("--image", metavar="REF", help="an image other than the cell's own")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record (- for stdout)")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit file")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run one level on one cell, keep the record and the log, return 1 on a negative verdict."""
    workspace = open_workspace(options.matrix)
    cell = _one(workspace, options)
    lock = load_for(cell, workspace.locks)
    recipe = load_recipe(workspace.root, options.recipe)
    check_pin(recipe, cell, lock)
    engine = Engine.connect()
    image = _image(engine, options.image or local_name(workspace.registry, cell), cell)
    level = options.level or default_level(cell, engine.info.platform)
    record = _run(workspace, engine, cell, lock, recipe, image, level, options)
    path = write_record(free_path(records_folder(workspace.cache), record), record)
    if options.junit:
        report.write_junit(record, options.junit)
    if options.json and str(options.json) != "-":
        write_text(options.json, path.read_text(encoding="utf-8"))
    if str(options.json) == "-":
        console.document(record.document())
    else:
        report.show(record)
    console.info(f"record: {path}\nlog: {record.log}")
    return 0 if record.passed else 1


def default_level(cell: Cell, host: str) -> str:
    """Return the highest level that can be shown here: without a GPU a CUDA cell is looked into,
    an emulated CPU cell generates in process, a native one serves."""  # noqa: D205, D209
    if cell.is_cuda:
        return "1a"
    return "2" if cell.platform == host else "1b"


def _one(workspace: Workspace, options: argparse.Namespace) -> Cell:
    axes = {"base": options.base} if options.base else None
    cells = select(workspace.cells, [options.cell], axes)
    if len(cells) != 1:
        raise UsageError(f"{options.cell} means {len(cells)} cells", where="command line",
                         next_step=f"name one of {', '.join(cell.id for cell in cells)}")
    return cells[0]


def _image(engine: Engine, reference: str, cell: Cell) -> ImageFacts:
    image = engine.inspect(reference)
    if image is None:
        raise EngineError("there is no image to test", where=reference,
                          next_step=f"run `sparkyard build {cell.id}`")
    return image


def _run(workspace: Workspace, engine: Engine, cell: Cell, lock: Lock, recipe: Recipe,
         image: ImageFacts, level: str, options: argparse.Namespace) -> Record:
    """Run the level; whatever happens, the log is kept."""
    started, clock = now(), time.monotonic()
    reference = options.image or local_name(workspace.registry, cell)
    emulated = cell.platform != engine.info.platform
    lines: list[str] = []
    phases: dict[str, float] = {}
    log = workspace.cache / "logs" / f"{cell.id}-{level}.log"
    model = options.model or workspace.root / "tests" / "fixtures" / TINY
    console.info(f"smoke {cell.id}, level {level}{', emulated' if emulated else ''}")
    try:
        if level == "2":
            checks, phases = serve_and_ask(engine, reference, cell, recipe, workspace.root, lines,
                                           emulated=emulated)
        else:
            checks = (look if level == "1a" else generate)(
                engine, reference, cell, as_patched(lock, image.labels), model, lines)
        if level == "1a":
            checks.append(_gate_agrees(workspace, cell, lock, checks))
    finally:
        write_text(log, "\n".join([*lines, ""]))
    where: Where = "emulated" if emulated else "cpu"
    return Record(cell=cell.id, level=level, recipe=recipe.name, image=reference,  # type: ignore[arg-type]
                  image_id=image.id, lock=lock.digest, labels=dict(image.labels), where=where,
                  started=started, seconds=time.monotonic() - clock, phases=phases,
                  checks=tuple(checks), log=str(log),
                  diagnosis=_diagnosis(workspace, checks, lines, _versions(lock, options.image)))


def _versions(lock: Lock, other_image: str | None) -> dict[str, str]:
    """Return what is known of the image; a foreign image need not hold what the lock says."""
    return {} if other_image else {wheel.name: wheel.version for wheel in lock.wheels}


def _gate_agrees(workspace: Workspace, cell: Cell, lock: Lock, checks: list[Check]) -> Check:
    """Hold the gate's word against what the loader did in the image."""
    base = own_base(workspace, cell)
    if not base.digest:
        return Check(check=NAME, status=Status.NOT_APPLICABLE, detail="the base is not locked")
    report = gate_cell(workspace, cell, lock, base,
                       lambda: fetch_lock(lock, Store(workspace.cache), cell.indexes).paths)
    return agreement(report.findings, checks)


def _diagnosis(workspace: Workspace, checks: list[Check], lines: list[str],
               versions: dict[str, str]) -> tuple[str, ...]:
    """Name the known failure when a check failed; what the versions rule out is said as such."""
    if all(check.status not in (Status.FAIL, Status.FLAKY) for check in checks):
        return ()
    return tuple(str(item) for item in diagnose(lines, load_issues(workspace.root), checks,
                                                versions))
