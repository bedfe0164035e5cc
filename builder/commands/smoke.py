"""``smoke``: run an image, and give a verdict on what it answers."""

from __future__ import annotations

import argparse
from pathlib import Path

from builder import console
from builder import labels as label
from builder.commands.option_types import user_path, whole_number
from builder.engine.client import Engine, ImageFacts
from builder.errors import EngineError, LockError, UsageError, command
from builder.files import check_outputs, write_text
from builder.image import local_name
from builder.locking.lock import Lock, load_for
from builder.matrix.cells import Cell, select
from builder.recipes.compatibility import check_pin
from builder.recipes.load import load_recipe
from builder.recipes.models import Recipe
from builder.record.models import Level, Record, records_folder
from builder.record.writer import RecordWriter, interruptions_recorded
from builder.registry.reference import check_reference
from builder.report import terminal as report
from builder.smoke.models import Run
from builder.smoke.record_start import start_record
from builder.smoke.run import perform
from builder.workspace import Workspace, open_workspace

TINY = "tiny-gemma4"
SHORTEST, LONGEST = 2, 7 * 24 * 60  # minutes of a soak


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "smoke", help="run an image and give a verdict on what it answers",
        description="Run an image and give a verdict on what it answers. docs/smoke.md explains "
                    "the levels and what is asked.")
    parser.add_argument("cell", metavar="CELL", help="id of the cell (see plan)")
    parser.add_argument("--base", help="use the cell on this base")
    parser.add_argument("--level", choices=("1a", "1b", "2"),
                        help="1a: look into the image; 1b: generate text in process; 2: start "
                             "the real server (default: the highest that this host can run)")
    parser.add_argument("--nodes", type=int, choices=(2,),
                        help="level 2x2: serve from two containers that share the model, and "
                             "lose one of them at the end (cells with a CPU backend)")
    parser.add_argument("--soak", type=whole_number(0, LONGEST), metavar="MINUTES",
                        help="level 2: after the questions, so many minutes of mixed load, to "
                             "see what gets worse with time (2 or more)")
    parser.add_argument("--recipe", default=TINY,
                        help=f"recipe of the model to serve at level 2 (default: {TINY})")
    parser.add_argument("--model", type=user_path, metavar="DIR",
                        help="use the checkpoint in this folder, not the recipe's")
    parser.add_argument("--image", metavar="REF", help="test this image, not the cell's own")
    parser.add_argument("--pull", action="store_true",
                        help="pull the image of --image first; its record then names the digest "
                             "in the registry")
    parser.add_argument("--json", type=user_path, metavar="FILE",
                        help="also write the record to this file (- for standard output)")
    parser.add_argument("--junit", type=user_path, metavar="FILE",
                        help="also write a JUnit report to this file")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run one level on one cell, keep the record and the log, return 1 on a negative verdict."""
    workspace = open_workspace(options.matrix)
    check_outputs(options.json, options.junit, inputs=[options.matrix],
                  protected=workspace.cache, records=True)
    if options.image:
        check_reference(options.image, "--image")
    cell = one_cell(workspace, options)
    refuse_level(cell, options)
    lock = load_for(cell, workspace.locks)
    recipe = load_recipe(workspace.root, options.recipe)
    check_pin(recipe, cell, lock)
    engine = Engine.connect()
    reference = options.image or local_name(workspace.registry, cell)
    if options.pull:
        console.info(f"pulling {reference}")
        engine.pull(reference, cell.platform)
    level = ("2x2" if options.nodes else
             "2" if options.soak else
             options.level or default_level(cell, engine.info.platform))
    run = Run(workspace, engine, cell, lock, level, recipe,
              _folder(workspace, recipe, level, options.model), reference,
              local_image(engine, reference, lock, foreign=bool(options.image)),
              foreign=bool(options.image), soak=options.soak or 0)
    writer = RecordWriter(records_folder(workspace.cache), start_record(run))
    try:
        with interruptions_recorded(writer):
            record = perform(run, writer)
    finally:
        write_copy(options.json, writer.path.read_text(encoding="utf-8"))
    _tell(record, options)
    console.info(f"record: {writer.path}\nlog: {workspace.cache / record.log}")
    return 0 if record.passed else 1


def refuse_level(cell: Cell, options: argparse.Namespace) -> None:
    """Raise UsageError for a level that the cell cannot run, or a pull without an image."""
    if options.pull and not options.image:
        raise UsageError("the cell's own image is built, not pulled", where="--pull",
                         next_step="name the image to pull: --image REF, or leave --pull out")
    if options.level == "1b" and cell.is_cuda:
        raise UsageError(f"level 1b runs vLLM on a CPU, and {cell.id} is built for a GPU",
                         where="--level 1b", next_step="use --level 1a, or on a host with a GPU "
                         "--level 2")
    refuse_soak(options)
    if options.nodes and options.level not in (None, "2"):
        raise UsageError(f"two nodes serve a model, and level {options.level} has no server",
                         where="--nodes", next_step="leave --level out")
    if options.nodes and cell.is_cuda:
        raise UsageError(f"both nodes run on this machine, and {cell.id} needs a GPU for each",
                         where="--nodes", next_step="test a cell with a CPU backend, such as cpu; "
                         "two Sparks are started by a launcher: "
                         + command("recipe", "show", "R", "--format", "sparkrun", "--nodes", "2"))


def refuse_soak(options: argparse.Namespace) -> None:
    """Raise UsageError for a soak that no server is there for, or that is too short to judge."""
    where = f"--soak {options.soak}"
    if options.soak is not None and options.soak < SHORTEST:
        raise UsageError("what grows shows only after a warm-up of a minute", where=where,
                         next_step=f"name {SHORTEST} minutes or more")
    if options.soak and options.level not in (None, "2"):
        raise UsageError(f"a soak needs a server, and level {options.level} has none",
                         where=where, next_step="leave --level out")
    if options.soak and options.nodes:
        raise UsageError("a soak is for one server", where=where,
                         next_step="leave --nodes or --soak out")


def write_copy(path: Path | None, text: str) -> None:
    """Write what was asked for beside the record, if it is a file; raises UsageError.

    The record itself is kept whatever becomes of it.
    """
    if path is None or str(path) == "-":
        return
    try:
        write_text(path, text)
    except OSError as error:
        raise UsageError(f"the file cannot be written: {error.strerror}", where=str(path),
                         next_step=f"the record is kept: {command('report', '--output', 'FILE')}"
                         ) from error


def _tell(record: Record, options: argparse.Namespace) -> None:
    write_copy(options.junit, report.junit([record]))
    if str(options.json) == "-":
        console.document(record.document())
    else:
        report.show(record)


def default_level(cell: Cell, host: str) -> Level:
    """Return the level to run where none is named.

    A CUDA cell is looked into, an emulated CPU cell generates in process, a native one serves.
    """
    if cell.is_cuda:
        return "1a"
    return "2" if cell.platform == host else "1b"


def one_cell(workspace: Workspace, options: argparse.Namespace) -> Cell:
    """Return the cell that the command line means; raises UsageError where it means several."""
    axes = {"base": options.base} if options.base else None
    cells = select(workspace.cells, [options.cell], axes)
    if len(cells) != 1:
        raise UsageError(f"{options.cell} names {len(cells)} cells, and one is needed",
                         where="command line",
                         next_step=f"name one of them: {', '.join(cell.id for cell in cells)}")
    return cells[0]


def local_image(engine: Engine, reference: str, lock: Lock, *, foreign: bool) -> ImageFacts:
    """Return the engine's image of that name, which is of this lock unless it is ``foreign``.

    What an image answers says nothing of a lock that it was not built from. Raises EngineError
    where there is none, LockError where it is of another lock.
    """
    image = engine.inspect(reference)
    build = f"run {command('build', lock.cell)}"
    if image is None:
        raise EngineError("the engine has no such image", where=reference,
                          next_step="add --pull, or load it" if foreign else build)
    if not foreign and image.labels.get(label.LOCK) != lock.digest:
        raise LockError("the image was not built from the current lock", where=reference,
                        next_step=f"{build}, or test the image as it is with --image REF")
    return image


def served_folder(workspace: Workspace, recipe: Recipe) -> Path | None:
    """Return the folder that a recipe serves; None for a repository of a hub.

    Raises UsageError where the recipe names a folder that is not there.
    """
    if not recipe.model.path:
        return None
    folder = workspace.root / recipe.model.path
    if not folder.is_dir():
        raise UsageError("there is no such folder",
                         where=f"{recipe.name}: model.path = {recipe.model.path}",
                         next_step="correct the path; it is relative to the folder of matrix.toml")
    return folder


def _folder(workspace: Workspace, recipe: Recipe, level: str, given: Path | None) -> Path | None:
    """Return the folder of the checkpoint that is tested; None for a repository of a hub."""
    if given and not given.is_dir():
        raise UsageError("there is no such folder", where=f"--model {given}",
                         next_step="name a folder with a checkpoint")
    if level not in ("2", "2x2"):
        return given or workspace.root / "tests" / "fixtures" / TINY
    if given and not recipe.model.path:
        raise UsageError(f"the recipe {recipe.name} serves a repository of a model hub "
                         f"({recipe.model.repository}), so that no folder can take its place",
                         where="--model", next_step="leave --model out")
    return given or served_folder(workspace, recipe)
