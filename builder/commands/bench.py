"""``sparkyard bench``: measure how fast a server is, and whether it is slower than it was."""

from __future__ import annotations

import argparse
from pathlib import Path

from pydantic import ValidationError

from builder import console
from builder.bench.benchy import text_sha256
from builder.bench.client import BenchClient
from builder.bench.grid import FULL, QUICK, Grid
from builder.bench.run import Wish, bench_image, conditions_unseen, measure_and_judge
from builder.commands.smoke import (
    local_image,
    one_cell,
    refuse_unwritable,
    served_folder,
    write_copy,
)
from builder.engine.client import Engine
from builder.errors import UsageError
from builder.image import local_name
from builder.locking.lock import load_for
from builder.matrix.cells import Cell
from builder.recipes.compatibility import check_pin
from builder.recipes.load import load_recipe
from builder.recipes.models import Recipe
from builder.record.bench import Bench
from builder.record.find import meant
from builder.record.models import Record, now, read_record, records_folder
from builder.record.writer import RecordWriter, kept
from builder.report import terminal as report
from builder.report.bench_table import compared, heading
from builder.smoke.models import Run
from builder.smoke.record_start import start_record
from builder.workspace import Workspace, open_workspace

# The tiny model answers prose with control tokens, which a parser would keep back.
PLAIN = "tiny-gemma4-plain"
GRID = ("pp", "tg", "depth", "concurrency")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("bench", help="measure token rates, compare with a baseline",
                                   description=__doc__)
    parser.add_argument("cell", metavar="CELL", help="cell id")
    parser.add_argument("--base", help="take the cell on this base")
    parser.add_argument("--recipe", default=PLAIN,
                        help=f"the model to serve (default: {PLAIN})")
    parser.add_argument("--image", metavar="REF", help="an image other than the cell's own")
    parser.add_argument("--url", help="measure a server that runs already, and start none")
    parser.add_argument("--hardware", default="", metavar="WORDS",
                        help="with --url: what it runs on, shown as your word")
    parser.add_argument("--quick", action="store_true", help="pp128, tg32, concurrency 1 and 2")
    for name in GRID:
        parser.add_argument(f"--{name}", type=int, nargs="+", metavar="N",
                            help=f"default: {' '.join(map(str, getattr(FULL, name)))}")
    parser.add_argument("--runs", type=int, metavar="N",
                        help=f"samples of each cell of the grid (default: {FULL.runs})")
    parser.add_argument("--tokenizer", metavar="DIR", help="where the model's tokenizer.json is")
    parser.add_argument("--text", type=Path, metavar="FILE", help="cut prompts from this text")
    parser.add_argument("--baseline", metavar="RECORD",
                        help="the record of an earlier benchmark, by file or id as for report; "
                             "exit code 1 if this is slower")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record (- for stdout)")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Measure, keep the record, and return 1 where the server fails or is slower."""
    refuse_unwritable(options.json)
    workspace = open_workspace(options.matrix)
    cell = one_cell(workspace, options)
    recipe = load_recipe(workspace.root, options.recipe)
    wish = _wish(options, workspace, recipe)
    writer, record = (_found if options.url else _started)(workspace, cell, recipe, wish, options)
    write_copy(options.json, writer.path.read_text(encoding="utf-8"))
    if str(options.json) == "-":
        console.document(record.document())
    else:
        _tell(record)
    console.info(f"record: {writer.path}")
    return 0 if record.passed else 1


def grid_of(options: argparse.Namespace) -> Grid:
    """Return the grid asked for; raises UsageError for numbers that cannot be."""
    start = QUICK if options.quick else FULL
    named = {name: tuple(value) for name in GRID if (value := getattr(options, name)) is not None}
    if options.runs is not None:
        named["runs"] = options.runs
    try:
        return Grid.model_validate({**start.model_dump(), **named})
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(first["msg"], where=f"--{first['loc'][0]}") from error


def baseline_of(path: Path) -> Bench:
    """Return the benchmark that a record holds; raises UsageError where it holds none."""
    record = read_record(path)
    if record.bench is None or not record.bench.series:
        raise UsageError("this record holds no benchmark", where=f"--baseline {path}",
                         next_step="name a record that `sparkyard bench` has written")
    return record.bench


def _wish(options: argparse.Namespace, workspace: Workspace, recipe: Recipe) -> Wish:
    """Read everything that may be wrong before a server is started."""
    if options.hardware and not options.url:
        raise UsageError("the hardware of a server that Sparkyard starts is looked at",
                         where="--hardware", next_step="leave it out, or name a server: --url")
    own = str(workspace.root / recipe.model.path) if recipe.model.path else recipe.model.name
    try:
        text = options.text.read_text(encoding="utf-8") if options.text else None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the text cannot be read: {error}", where=f"--text {options.text}"
                         ) from error
    if text is not None and not text.strip():
        raise UsageError("there is nothing in the text", where=f"--text {options.text}",
                         next_step="name one of some thousand words, or leave --text out")
    baseline = (meant(records_folder(workspace.cache), options.baseline)
                if options.baseline else None)
    return Wish(grid_of(options), options.tokenizer or own, workspace.cache, text,
                baseline_of(baseline) if baseline else None, baseline.stem if baseline else "")


def _started(workspace: Workspace, cell: Cell, recipe: Recipe, wish: Wish,
             options: argparse.Namespace) -> tuple[RecordWriter, Record]:
    """Measure an image: its server is started, watched and removed."""
    lock = load_for(cell, workspace.locks)
    check_pin(recipe, cell, lock)
    engine = Engine.connect()
    reference = options.image or local_name(workspace.registry, cell)
    run = Run(workspace, engine, cell, lock, "bench", recipe,
              served_folder(workspace, recipe), reference,
              local_image(engine, reference, lock, foreign=bool(options.image)),
              foreign=bool(options.image))
    writer = RecordWriter(records_folder(workspace.cache), start_record(run))
    with kept(writer):
        return writer, bench_image(run, writer, wish)


def _found(workspace: Workspace, cell: Cell, recipe: Recipe, wish: Wish,
           options: argparse.Namespace) -> tuple[RecordWriter, Record]:
    """Measure a server that runs already; nothing of it is known but what it answers."""
    server = BenchClient(options.url, recipe.model.name)
    server.context()  # says at once when nobody listens there
    writer = RecordWriter(records_folder(workspace.cache), Record(
        state="running", cell=cell.id, level="bench", image="", image_id="", labels={}, lock="",
        recipe=recipe.name, where="unseen", started=now(), seconds=0.0, phases={}, checks=(),
        log=""))
    with kept(writer):
        conditions = conditions_unseen(recipe, options.hardware, text_sha256(wish.text))
        measure_and_judge(server, conditions, wish, writer.add,
                          lambda bench: writer.note(bench=bench))
        return writer, writer.finish()


def _tell(record: Record) -> None:
    if record.bench:
        console.out(heading(record.cell, record.bench))
    report.show(record)
    for line in compared(record.bench) if record.bench else ():
        console.out(line)
