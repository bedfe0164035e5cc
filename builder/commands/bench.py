"""``sparkyard bench``: measure how fast a server is, and whether it is slower than before."""

from __future__ import annotations

import argparse
from pathlib import Path

from builder import console
from builder.bench.benchy import text_sha256
from builder.bench.client import BenchClient
from builder.bench.grid import FULL, QUICK, Grid, fitting
from builder.bench.run import BenchRequest, bench_image, conditions_unseen, measure_and_judge
from builder.commands.option_types import (
    file_or_name,
    folder_or_name,
    refuse_beside,
    user_path,
    whole_number,
)
from builder.commands.smoke import (
    local_image,
    one_cell,
    served_folder,
    write_copy,
)
from builder.engine.client import Engine
from builder.errors import UsageError, command
from builder.files import check_outputs
from builder.image import local_name
from builder.limits import BENCH_TEXT_BYTES, read_file
from builder.locking.lock import load_for
from builder.matrix.cells import Cell
from builder.recipes.compatibility import check_pin
from builder.recipes.load import load_recipe
from builder.recipes.models import Recipe
from builder.recipes.rules import command_line
from builder.record.bench import MIN_RUNS, Bench
from builder.record.find import record_path
from builder.record.models import Record, now, records_folder
from builder.record.reader import read_record
from builder.record.writer import RecordWriter, interruptions_recorded
from builder.registry.reference import check_reference
from builder.report import terminal as report
from builder.report.bench import comparison_lines, heading
from builder.smoke.models import Run
from builder.smoke.record_start import recipe_digest, start_record
from builder.workspace import Workspace, open_workspace

# The tiny model answers prose with control tokens, which a parser would withhold.
PLAIN = "tiny-gemma4-plain"
GRID = {"pp": (1, 10**6), "tg": (1, 10**5), "depth": (0, 10**6), "concurrency": (1, 1000)}
MOST_RUNS = 1000
TOKENIZER = "tokenizer.json"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "bench", help="measure token rates and compare them with a baseline",
        description="Measure how fast a server is, and whether it is slower than before.")
    parser.add_argument("cell", metavar="CELL", help="id of the cell (see plan)")
    parser.add_argument("--base", help="use the cell on this base")
    parser.add_argument("--recipe", default=PLAIN,
                        help=f"recipe of the model to serve (default: {PLAIN})")
    parser.add_argument("--image", metavar="REF", help="measure this image, not the cell's own")
    parser.add_argument("--url", metavar="URL",
                        help="measure a server that is already running, as http://HOST:PORT")
    parser.add_argument("--hardware", default="", metavar="WORDS",
                        help="with --url: the hardware it runs on, shown as your statement")
    parser.add_argument("--quick", action="store_true", help="pp128, tg32, concurrency 1 and 2")
    for name, span in GRID.items():
        parser.add_argument(f"--{name}", type=whole_number(*span), nargs="+", metavar="N",
                            help=f"default: {' '.join(map(str, getattr(FULL, name)))}")
    parser.add_argument("--runs", type=whole_number(MIN_RUNS, MOST_RUNS), metavar="N",
                        help=f"runs of each point of the grid (default: {FULL.runs})")
    parser.add_argument("--tokenizer", type=folder_or_name, metavar="DIR",
                        help=f"folder of the model's {TOKENIZER}, or a repository of the hub")
    parser.add_argument("--text", type=user_path, metavar="FILE",
                        help="cut the prompts from this text")
    parser.add_argument("--baseline", type=file_or_name, metavar="RECORD",
                        help="compare with this record of an earlier benchmark (a file or an id, "
                             "as for report); exit code 1 if the new one is slower")
    parser.add_argument("--json", type=user_path, metavar="FILE",
                        help="also write the record to this file (- for standard output)")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Measure, keep the record, and return 1 where the server fails or is slower."""
    workspace = open_workspace(options.matrix)
    if options.image:
        check_reference(options.image, "--image")
    cell = one_cell(workspace, options)
    recipe = load_recipe(workspace.root, options.recipe)
    baseline = (record_path(records_folder(workspace.cache), options.baseline)
                if options.baseline else None)
    check_outputs(options.json, protected=workspace.cache, records=True,
                  inputs=[path for path in (options.matrix, options.text, baseline) if path])
    request = _request(options, workspace, recipe, baseline)
    writer, record = (_measure_running if options.url else _measure_image)(
        workspace, cell, recipe, request, options)
    write_copy(options.json, writer.path.read_text(encoding="utf-8"))
    if str(options.json) == "-":
        console.document(record.document())
    else:
        _tell(record)
    console.info(f"record: {writer.path}")
    return 0 if record.passed else 1


def grid_of(options: argparse.Namespace) -> Grid:
    """Return the grid that the options name, each of its points once."""
    start = QUICK if options.quick else FULL
    named = {name: tuple(dict.fromkeys(value)) for name in GRID
             if (value := getattr(options, name)) is not None}
    runs = start.runs if options.runs is None else options.runs
    return Grid.model_validate({**start.model_dump(), **named, "runs": runs})


def baseline_of(path: Path) -> Bench:
    """Return the benchmark that a record holds; raises UsageError where it holds none."""
    record = read_record(path)
    if record.bench is None or not record.bench.series:
        raise UsageError("this record holds no benchmark", where=f"--baseline {path}",
                         next_step=f"name a record of {command('bench', record.cell)}")
    return record.bench


def _request(options: argparse.Namespace, workspace: Workspace, recipe: Recipe,
             baseline: Path | None) -> BenchRequest:
    """Read everything that may be wrong before a server is started."""
    if options.hardware and not options.url:
        raise UsageError("Sparkyard looks at the hardware of a server that it starts",
                         where="--hardware",
                         next_step="leave the option out, or name a running server with --url")
    if options.url:
        refuse_beside(options, "--url", image="--image")
    if options.tokenizer:
        _check_tokenizer(options.tokenizer)
    own = str(workspace.root / recipe.model.path) if recipe.model.path else recipe.model.name
    return BenchRequest(
        grid_of(options), options.tokenizer or own, workspace.cache,
        _text(options.text) if options.text else None,
        baseline_of(baseline) if baseline else None, baseline.stem if baseline else "")


def _check_tokenizer(name: str) -> None:
    """Raise UsageError for a folder that cannot be one; the name of a repository may be right."""
    path = Path(name)
    problem = ""
    if path.is_dir():
        problem = "" if (path / TOKENIZER).is_file() else f"the folder has no {TOKENIZER}"
    elif path.exists():
        problem = "this is no folder"
    elif path.is_absolute():
        problem = "there is no such folder"
    if problem:
        raise UsageError(problem, where=f"--tokenizer {name}",
                         next_step=f"name the folder that holds the model's {TOKENIZER}")


def _text(path: Path) -> str:
    """Return the user's own text; raises UsageError where it cannot be read or is empty."""
    where = f"--text {path}"
    try:
        text = read_file(path, BENCH_TEXT_BYTES, "text").decode("utf-8")
    except OSError as error:
        raise UsageError(f"the text cannot be read: {error.strerror}", where=where,
                         next_step="name a file, or leave --text out") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the text is not UTF-8: {error.reason} at byte {error.start}",
                         where=where, next_step="name a plain text file") from error
    if not text.strip():
        raise UsageError("the text is empty", where=where,
                         next_step="name a text of some thousand words, or leave --text out")
    return text


def _measure_image(workspace: Workspace, cell: Cell, recipe: Recipe, request: BenchRequest,
                   options: argparse.Namespace) -> tuple[RecordWriter, Record]:
    """Measure an image: its server is started, watched and removed."""
    lock = load_for(cell, workspace.locks)
    check_pin(recipe, cell, lock)
    length = command_line(recipe.serve).get("--max-model-len", "")
    if length.isdecimal():
        fitting(request.grid, int(length))  # an error now, and not after the boot
    engine = Engine.connect()
    reference = options.image or local_name(workspace.registry, cell)
    run = Run(workspace, engine, cell, lock, "bench", recipe,
              served_folder(workspace, recipe), reference,
              local_image(engine, reference, lock, foreign=bool(options.image)),
              foreign=bool(options.image))
    writer = RecordWriter(records_folder(workspace.cache), start_record(run))
    with interruptions_recorded(writer):
        return writer, bench_image(run, writer, request)


def _measure_running(workspace: Workspace, cell: Cell, recipe: Recipe, request: BenchRequest,
                     options: argparse.Namespace) -> tuple[RecordWriter, Record]:
    """Measure a server that is already running; only its answers are known."""
    server = BenchClient(options.url, recipe.model.name)
    server.context()  # an error right away if nothing listens there
    writer = RecordWriter(records_folder(workspace.cache), Record(
        state="running", cell=cell.id, level="bench", image="", image_id="", labels={}, lock="",
        recipe=recipe.name, recipe_digest=recipe_digest(workspace.root, recipe),
        execution="unseen", started=now(), seconds=0.0, phases={}, checks=(), log=""))
    with interruptions_recorded(writer):
        conditions = conditions_unseen(recipe, options.hardware, text_sha256(request.text))
        measure_and_judge(server, conditions, request, writer.add,
                          lambda bench: writer.update(bench=bench))
        return writer, writer.finish()


def _tell(record: Record) -> None:
    if record.bench:
        console.out(heading(record.cell, record.bench))
    report.show(record)
    for line in comparison_lines(record.bench) if record.bench else ():
        console.out(line)
