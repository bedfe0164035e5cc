"""``sparkyard pin``: the version that a bisection found good, written into the recipe."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from builder import console, specifiers
from builder import labels as label
from builder.bisection.derive import with_version
from builder.bisection.search import Verdict
from builder.bisection.state import Bisection, Question, Step, newest
from builder.commands.recipe_check import check_recipes
from builder.errors import UsageError, VerdictError, command
from builder.matrix.cells import Cell, select
from builder.recipes.load import load_recipe
from builder.recipes.models import Pin
from builder.recipes.pinning import pin_line, write_pin
from builder.record.models import Record, records_folder
from builder.record.reader import read_record
from builder.text import one_line
from builder.workspace import Workspace, open_workspace

SHOWN = 80  # characters of a record's own words in a message


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "pin", help="write the version that bisect found good into the recipe",
        description="Adds one line to the recipe: the version, the cell and the digest of the "
                    "record that shows it. Everything else in the file stays. Then the recipe is "
                    "checked. docs/bisect.md explains it.")
    parser.add_argument("recipe", metavar="RECIPE", help="the name of a file in recipes/, no .toml")
    parser.add_argument("--version", metavar="V",
                        help="another version that the bisection judged good")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Write the pin, then check the recipe; return the check's code."""
    workspace = open_workspace(options.matrix)
    recipe = load_recipe(workspace.root, options.recipe)
    found = newest(workspace.cache, recipe.name)
    bisect = command("bisect", recipe.name, "--good", "V", "--bad", "V", "--verify")
    if found is None:
        raise UsageError(f"no finished bisection of {recipe.name} is in the cache",
                         where=recipe.name, next_step=bisect)
    version = options.version or found.search.last_good
    step = found.step(version)
    if step is None or step.verdict is not Verdict.GOOD:
        raise UsageError(f"{version} was not judged good", where=recipe.name, next_step=bisect)
    pin = made(found, step, _record(workspace, found, step))
    path = write_pin(workspace.root, recipe, pin)
    console.info(f"{path}:\n  {pin_line(pin).strip()}")
    return check_recipes(workspace, argparse.Namespace(
        recipes=[recipe.name], cell=None, roofline=False, memory=False, json=False))


def made(found: Bisection, step: Step, record: Record) -> Pin:
    """Return the pin of a version that was judged good; raises VerdictError for other evidence."""
    if not record.passed or record.where == "unseen":
        raise VerdictError("the record does not show that it works", where=step.record,
                           next_step="judge the version again with --restart")
    suspects = found.search.suspects
    bad = found.step(suspects[0]) if len(suspects) == 1 else None
    seen = f": {bad.diagnosis}" if bad and bad.diagnosis else ""
    return Pin(vllm=step.version, cell=record.cell, record=record.digest, where=record.where,
               on=record.started[:10], because=f"{', '.join(suspects)} fails{seen}"
               if step.version == found.search.last_good else "")


def _record(workspace: Workspace, found: Bisection, step: Step) -> Record:
    """Return the step's record; raises VerdictError where it answers another question."""
    again = "judge the version again with --restart"
    path = (workspace.cache / step.record).resolve()
    if not path.is_relative_to(records_folder(workspace.cache).resolve()):
        raise VerdictError("the bisection names a file that is not among the records of this cache",
                           where=step.record, next_step=again)
    record = read_record(path)
    if others := ", ".join(_others(record, found.question, _judged_cell(workspace, found, step),
                                   step)):
        raise VerdictError(f"the record is not of what was judged: {others}", where=step.record,
                           next_step=again)
    return record


def _judged_cell(workspace: Workspace, found: Bisection, step: Step) -> Cell:
    cell = select(workspace.cells, [found.question.cell])[0]
    return with_version(workspace.matrix, cell, step.version)[1]


def _others(record: Record, question: Question, cell: Cell, step: Step) -> Iterator[str]:
    """Yield in what a record differs from the question and the version that was judged."""
    for what, has, asked in (("recipe", record.recipe, question.recipe),
                             ("recipe's digest", record.recipe_digest, question.recipe_digest),
                             ("level", record.level, question.level),
                             ("cell", record.cell, cell.id)):
        if has != asked:
            yield f'its {what} is "{one_line(has, SHOWN)}", not "{one_line(asked, SHOWN)}"'
    version = record.labels.get(label.VERSION + cell.vllm_package, "")
    if not specifiers.allows(step.version, version):
        yield f'its vLLM is "{one_line(version, SHOWN)}", not {step.version}'
