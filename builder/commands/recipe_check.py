"""``sparkyard recipe check``: recipes judged before anything starts, and the tables behind it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from builder import console
from builder.commands.option_types import refuse_beside
from builder.config_file import suggestion
from builder.errors import LockError, UsageError, command
from builder.locking.lock import Lock, load_for
from builder.matrix.cells import Cell, near
from builder.recipes import reported
from builder.recipes.check import Finding, Vllms, check
from builder.recipes.compatibility import installed
from builder.recipes.load import load_recipe, recipe_names
from builder.recipes.memory import GIB, Estimate
from builder.recipes.memory_check import check_memory, summary
from builder.recipes.models import Recipe
from builder.recipes.roofline import lines, load_figures
from builder.recipes.rules import Severity
from builder.recipes.templates import check_template
from builder.store.looking import Looking
from builder.workspace import Workspace

ROOFLINE = ("model", "weights", "on", "requests", "what", "bound tok/s", "published", "error",
            "verdict", "source")
MEMORY = ("model", "on", "vLLM", "figure", "estimated", "reported", "error", "source")


@dataclass(frozen=True)
class Judged:
    """A recipe on a cell: what is wrong with it, and what it takes where that is known."""

    recipe: Recipe
    cell: Cell
    findings: tuple[Finding, ...]
    memory: Estimate | None

    @property
    def errors(self) -> int:
        """Return how many of the findings are errors."""
        return sum(finding.severity is Severity.ERROR for finding in self.findings)


def add_check(verbs: argparse._SubParsersAction[argparse.ArgumentParser]
              ) -> argparse.ArgumentParser:
    """Add ``recipe check``."""
    parser = verbs.add_parser(
        "check", help="judge recipes before anything starts: flags, environment, log patterns, "
                      "known bad settings, memory",
        description="Needs neither a GPU nor a network: flags, environment variables and log "
                    "messages are read from the sources of the locked vLLM wheel, which must be "
                    "fetched. Ends with code 1 where a recipe has an error.")
    parser.add_argument("recipes", metavar="RECIPE", nargs="*",
                        help="names of recipes (default: all)")
    parser.add_argument("--cell", metavar="CELL",
                        help="the cell to run on (default: the first locked cell of the image)")
    tables = parser.add_mutually_exclusive_group()
    tables.add_argument("--roofline", action="store_true",
                        help="show the published decode speeds of Gemma 4 beside what the "
                             "memory bus of a Spark allows, and judge no recipe")
    tables.add_argument("--memory", action="store_true",
                        help="show the memory that servers reported beside the estimate, and "
                             "judge no recipe")
    return parser


def check_recipes(workspace: Workspace, args: argparse.Namespace) -> int:
    """Judge the recipes; 1 where one has an error, 2 where one cannot be judged at all."""
    for mode in [f"--{name}" for name in ("roofline", "memory") if getattr(args, name)]:
        refuse_beside(args, mode, recipes="RECIPE", cell="--cell")
    if args.roofline:
        return _table(ROOFLINE, lines(load_figures(), workspace.root), as_json=args.json)
    if args.memory:
        return _table(MEMORY, reported.lines(workspace.root), as_json=args.json)
    if args.cell:
        _require(workspace, args.cell)
    locks = [lock for cell in workspace.cells if (lock := _lock(workspace, cell))]
    vllms = Vllms(Looking(workspace.cache), locks)
    judged, refused = [], []
    for name in args.recipes or recipe_names(workspace.root):
        try:
            judged.append(_judge(workspace, load_recipe(workspace.root, name), args.cell, vllms))
        except UsageError as error:  # the others are judged all the same
            refused.append(error)
    if args.json:
        console.document([_document(one) for one in judged])
    else:
        for line in [*(line for one in judged for line in _verdict(one)), *_missing(judged)]:
            console.out(line)
    for refusal in refused:
        console.show_error(refusal)
    return UsageError.exit_code if refused else int(any(one.errors for one in judged))


def _judge(workspace: Workspace, recipe: Recipe, wanted: str | None, vllms: Vllms) -> Judged:
    cell, lock = recipe_cell(workspace, recipe, wanted)
    findings = [*check(recipe, cell, lock, vllms), *check_template(workspace.root, recipe)]
    try:
        memory, more = check_memory(workspace.root, recipe, cell, lock, vllms)
    except LockError:
        memory, more = None, []  # a wheel that cannot be read is a finding of check already
    return Judged(recipe, cell, tuple(sorted(
        [*findings, *more], key=lambda finding: finding.severity is not Severity.ERROR)), memory)


def _table(columns: Sequence[str], found: Iterator[list[str]], *, as_json: bool) -> int:
    """Show figures of others beside what is expected; they are facts, and no verdict."""
    rows = list(found)
    if as_json:
        console.document([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        console.table("", columns, rows)
    return 0


def _document(one: Judged) -> dict[str, Any]:
    memory = one.memory
    return {"recipe": one.recipe.name, "cell": one.cell.id,
            "findings": [finding.model_dump(mode="json") for finding in one.findings],
            "memory": memory and {
                "basis": memory.basis or "read from the sources of vLLM",
                "weights_gib": round(memory.weights / GIB, 3),
                "share_gib": round(memory.share / GIB, 3),
                "kv_cache_gib": round(memory.cache / GIB, 3), "kv_cache_tokens": memory.tokens,
                "bytes_a_token": round(memory.pool.token_bytes),
                "requests_of_full_length": round(memory.concurrency, 2),
                "longest": memory.longest, "loading_gib": round(memory.peak / GIB, 3)}}


def _verdict(one: Judged) -> Iterator[str]:
    said = [finding for finding in one.findings if not finding.missing]
    errors = sum(finding.severity is Severity.ERROR for finding in said)
    counts = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in (
        (errors, "error"), (len(said) - errors, "warning")) if count]
    whole = len(said) == len(one.findings)
    verdict = counts or (["good"] if whole else [])
    yield f"{one.recipe.name} on {one.cell.id}: " + ", ".join(
        [*verdict, *([] if whole else ["not checked whole"])])
    for finding in said:
        yield f"  {finding.severity} ({finding.check}): {finding.what}"
        yield from (f"    {line}" for line in (finding.next_step, finding.link) if line)
    if one.memory:
        basis = f" {one.memory.basis}" if one.memory.basis else ""
        yield f"  memory, estimated{basis}: {summary(one.memory)}"


def _missing(judged: Sequence[Judged]) -> Iterator[str]:
    """Say once, for all recipes, what was not checked and what to run first."""
    cells: dict[str, set[str]] = {}
    found = [finding.missing for one in judged for finding in one.findings if finding.missing]
    for verb, cell in found:
        cells.setdefault(verb, set()).add(cell)
    if not found:
        return
    yield (f"{_many(len(found))} not checked whole: flags, environment and log patterns are "
           "read from the locked wheel of vLLM")
    for verb, names in sorted(cells.items()):
        what = "the cache lacks the wheel of" if verb == "fetch" else "there is no good lock of"
        yield f"  {what} {', '.join(sorted(names))}: run {command(verb, *sorted(names))}"


def _many(count: int) -> str:
    return "1 recipe was" if count == 1 else f"{count} recipes were"


def recipe_cell(workspace: Workspace, recipe: Recipe, wanted: str | None
                ) -> tuple[Cell, Lock | None]:
    """Return the cell that is asked for, else the image's first one with a good lock.

    A pinned recipe takes the one with its version of vLLM, where there is one.
    """
    cells = [cell for cell in workspace.cells
             if (cell.id == wanted if wanted else cell.image == recipe.image)]
    if not cells:
        if wanted:
            _require(workspace, wanted)
        raise UsageError(f'recipe "{recipe.name}" names the image "{recipe.image}", which the '
                         "matrix does not have", where=f"recipes/{recipe.name}.toml: image",
                         next_step=suggestion(recipe.image, list(workspace.matrix.images)))
    locked = [(cell, _lock(workspace, cell)) for cell in cells]
    pin = recipe.pinned.vllm if recipe.pinned else ""
    good = [pair for pair in locked if pair[1]]
    pinned = [pair for pair in good if installed(*pair).get("vllm") == pin]
    return next(iter([*pinned, *good, *locked]))


def _require(workspace: Workspace, wanted: str) -> None:
    """Raise UsageError where no cell is called so."""
    ids = [cell.id for cell in workspace.cells]
    if wanted not in ids:
        raise UsageError(f'there is no cell "{wanted}"', where="--cell",
                         next_step=near(wanted, ids))


def _lock(workspace: Workspace, cell: Cell) -> Lock | None:
    try:
        return load_for(cell, workspace.locks)
    except LockError:
        return None
