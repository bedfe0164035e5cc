"""``sparkyard recipe``: the recipes of this checkout, judged, and the command that serves one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from builder import console
from builder.commands.recipe_check import add_check, check_recipes, recipe_cell
from builder.commands.recipe_exchange import (
    add_export_options,
    add_import,
    asked,
    export,
    import_recipe,
    reference,
)
from builder.commands.recipe_facts import add_facts, refresh
from builder.errors import UsageError
from builder.matrix.cells import Cell
from builder.matrix.models import AXES
from builder.recipes.compatibility import check_pin
from builder.recipes.exports.docker import before, docker_command
from builder.recipes.exports.service import Service, plan_service
from builder.recipes.launch import launch_key
from builder.recipes.load import json_schema, load_all, load_recipe
from builder.recipes.log import Expected
from builder.recipes.models import Figure, Recipe
from builder.workspace import Workspace, open_workspace

UNVERIFIED = "not verified on GB10"


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``recipe list``, ``recipe show``, ``recipe check`` and ``recipe schema``."""
    parser = stages.add_parser(
        "recipe", help="show the recipes and the command that serves one",
        description="A recipe says which model runs on which image, with which arguments, and what "
                    "is known to go wrong. docs/recipes.md explains how to write one.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    listing = verbs.add_parser(
        "list", help="list all recipes",
        description="List the recipes of this checkout with their image and model.")
    show = verbs.add_parser(
        "show", help="show one recipe: docker command, expected log lines, blocked versions, "
                     "published figures",
        description="Show one recipe: the docker command that serves its model, what the log must "
                    "show, blocked versions and published figures. --format prints it for another "
                    "tool.")
    show.add_argument("recipe", metavar="RECIPE", help="the name of a file in recipes/, no .toml")
    show.add_argument("--cell", metavar="CELL",
                      help="the cell to run on (default: the first locked cell of its image)")
    add_export_options(show)
    checking = add_check(verbs)
    for verb in (listing, checking):
        verb.add_argument("--json", action="store_true", help="print one JSON document")
    add_import(verbs)
    add_facts(verbs)
    verbs.add_parser(
        "schema", help="print the JSON Schema of a recipe, for editors",
        description="Print the JSON Schema of a recipe; editors check a recipe with it.")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """List or check the recipes, or show one; refuses a cell that its model cannot run on."""
    if args.verb == "schema":
        console.document(json_schema())
        return 0
    workspace = open_workspace(args.matrix, make_cache=False)
    if args.verb == "check":
        return check_recipes(workspace, args)
    if args.verb == "facts":
        return refresh(workspace, args.repositories)
    if args.verb == "import":
        return import_recipe(workspace, args)
    if args.verb == "list":
        return _list(workspace, as_json=args.json)
    _show(workspace, load_recipe(workspace.root, args.recipe), args)
    return 0


def _list(workspace: Workspace, *, as_json: bool) -> int:
    """List the good recipes, then the errors of the others; 2 where there are any."""
    loaded = list(load_all(workspace.root))
    recipes = [item for item in loaded if isinstance(item, Recipe)]
    broken = [item for item in loaded if isinstance(item, UsageError)]
    if as_json:
        console.document([recipe.model_dump(mode="json", by_alias=True) for recipe in recipes])
    else:
        console.table("", ["recipe", "image", "model", "description"],
                      [[recipe.name, recipe.image, recipe.model.name, recipe.description]
                       for recipe in recipes])
    for error in broken:
        console.show_error(error)
    return UsageError.exit_code if broken else 0


def _show(workspace: Workspace, recipe: Recipe, args: argparse.Namespace) -> None:
    cell, lock = recipe_cell(workspace, recipe, args.cell)
    check_pin(recipe, cell, lock)
    image = reference(workspace, cell, lock)
    service = plan_service(recipe, cell, image, workspace.root, asked(args))
    if args.format:
        export(service, args.format)
        return
    if args.json:
        console.document({
            "recipe": recipe.model_dump(mode="json", by_alias=True), "cell": cell.id,
            "image": image.reference, "locked": lock is not None,
            "launch_key": launch_key(recipe, cell),
            "before": list(before(service)), "command": docker_command(service),
            "remarks": list(service.remarks),
            "verified_on_gb10": _verified(recipe)})
        return
    console.out("\n".join(_page(service)))


def _page(service: Service) -> Iterator[str]:
    recipe, cell = service.recipe, service.cell
    yield f"{recipe.name}: {recipe.description}"
    yield f"cell {cell.id} ({', '.join(f'{a} {cell.axes[a]}' for a in AXES if a in cell.axes)})"
    yield f"model {recipe.model.name}{_revision(recipe)}"
    yield ""
    yield from (f"# the chat template must be its owner's version of {recipe.chat_template.as_of}"
                for _ in service.steps[:1] if recipe.chat_template)
    yield from (f"# {remark}" for remark in service.remarks)
    yield from before(service)
    yield docker_command(service)
    if cell.is_cuda:
        yield ""
        yield (f"The compile cache is {recipe.name}-{launch_key(recipe, cell)}. With the same "
               "arguments it is used again; other arguments compile again, which takes minutes.")
    yield from _section("Blocked", (
        f"{block.package} {block.versions}: {block.reason} ({block.link}"
        + (f", fixed by {block.fixed_by}" if block.fixed_by else "") + ")"
        for block in recipe.blocked))
    yield from _section("The log must show", map(_line, _lines(recipe.log.must_show, cell)))
    yield from _section("The log must not show",
                        map(_line, _lines(recipe.log.must_not_show, cell)))
    yield from _section("The log must state", (
        f"{figure.name} {figure.allowed} {figure.unit}   ({figure.why})"
        for figure in recipe.log.figure
        if figure.applies(is_cuda=cell.is_cuda)))
    yield from _section("Figures", [*map(_figure, recipe.published), *_memory(recipe)])
    yield ""
    yield "verified on GB10" if _verified(recipe) else UNVERIFIED


def _section(title: str, lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    items = list(lines)
    if items:
        yield from ("", f"{title}:", *(f"  {item}" for item in items))


def _revision(recipe: Recipe) -> str:
    if recipe.model.path:
        inside = not Path(recipe.model.path).is_absolute()
        return f" ({recipe.model.path}, {'in this checkout' if inside else 'on this host'})"
    state = "" if recipe.model.pinned else f", not pinned: {recipe.model.unpinned_because}"
    return f" at {recipe.model.revision}{state}"


def _lines(lines: Sequence[Expected], cell: Cell) -> list[Expected]:
    return [line for line in lines if line.applies(is_cuda=cell.is_cuda)]


def _line(line: Expected) -> str:
    return f"{line.pattern}   ({line.why})"


def _figure(figure: Figure) -> str:
    value = f"{figure.value:g}" + (f" to {figure.up_to:g}" if figure.up_to else "")
    load = f", {figure.concurrency} at once" if figure.concurrency > 1 else ""
    extra = "".join(f"; {text}" for text in (figure.vllm and f"vllm {figure.vllm}", figure.note)
                    if text)
    return (f"{figure.metric} {value} {figure.unit}{load}: {figure.where}, {figure.hardware}"
            f"{extra} [{figure.source}]")


def _memory(recipe: Recipe) -> Iterator[str]:
    for memory in recipe.memory:
        named: dict[str, Any] = {
            "weights {:g} GiB": memory.weights_gib, "KV cache {:g} GiB": memory.kv_cache_gib,
            "KV cache of {:,} tokens": memory.kv_cache_tokens, "in all {:g} GB": memory.used_gb}
        parts = [text.format(value) for text, value in named.items() if value is not None]
        yield f"{', '.join(parts)}: {memory.where}, {memory.hardware} [{memory.source}]"


def _verified(recipe: Recipe) -> bool:
    """Say whether any of the figures was measured on a GB10 with an image of this project."""
    return "gb10" in {*(figure.where for figure in recipe.published),
                      *(memory.where for memory in recipe.memory)}
