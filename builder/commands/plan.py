"""``sparkyard plan``: cells, what is locked and why not, sizes, and what a build would do."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from builder import console, limits, specifiers
from builder import labels as label
from builder.bases.state import Bases, BaseState, read_bases
from builder.commands.option_types import refuse_beside, user_path
from builder.errors import IntegrityError, PatchError, UsageError
from builder.files import check_outputs
from builder.locking.lock import Lock
from builder.matrix.cells import Cell, select
from builder.matrix.load import json_schema
from builder.plan import CellPlan, buildable, document, plan_cells
from builder.wheels.policy import checked_recipes
from builder.workspace import Workspace, open_workspace

COLUMNS = ("cell", "platform", "base", "lock", "wheels", "fetch", "disk", "a build would", "notes")


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = stages.add_parser(
        "plan", help="show the cells and what a build would do",
        description="Show each cell of the matrix: its base, whether it is locked, how much a "
                    "fetch would download and what a build would do. Changes nothing.")
    parser.add_argument("cells", nargs="*", metavar="CELL", help="cell ids or globs (default: all)")
    parser.add_argument("--base", metavar="BASE", help="only the cells on this base")
    parser.add_argument("--engine", action="store_true",
                        help="also ask the Docker engine which images are there already")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--schema", action="store_true",
                        help="the JSON Schema of the matrix instead, for editors")
    parser.add_argument("--cells-to", type=user_path, metavar="FILE",
                        help="also append cells=<JSON list of the ids that can be built> and "
                             "platforms=<JSON object of their platforms> to FILE, which is how a "
                             "CI job hands them to the next")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Print the plan; asks no network, and the engine only with ``--engine``."""
    if args.schema:
        refuse_beside(args, "--schema", cells="CELL", base="--base", engine="--engine",
                      cells_to="--cells-to")
        console.document(json_schema())
        return 0
    workspace = open_workspace(args.matrix, make_cache=False)
    check_outputs(args.cells_to, inputs=[args.matrix], protected=workspace.cache)
    axes = {"base": args.base} if args.base else None
    cells = select(workspace.cells, args.cells, axes)
    recipes, bases = checked_recipes(workspace, cells), read_bases(workspace)
    is_built = _asking_the_engine(workspace, bases) if args.engine else None
    plans = plan_cells(cells, workspace.locks, workspace.cache, bases.standings, is_built,
                       recipes)
    if args.cells_to:
        _hand_on(args.cells_to, plans)
    if args.json:
        console.document(document(plans))
    else:
        _show(plans)
    return 0


def _asking_the_engine(workspace: Workspace, bases: Bases) -> Callable[[Cell, Lock], bool]:
    """Return the question whether the engine has the image that a build would make now."""
    # Imported here: the Docker client takes longer to import than a plan of 1,000 cells.
    from builder.engine.client import Engine
    from builder.image import plan_image
    from builder.patches.load import asking, load_series
    from builder.patches.stage import series_digest

    console.info("asking the Docker engine …")
    engine = Engine.connect(patience=limits.ENGINE_PLAN_S)
    ask = asking(workspace)

    def is_built(cell: Cell, lock: Lock) -> bool:
        base = bases.get((cell.base_name, cell.platform))
        if base is None:
            return False
        try:
            series = load_series(workspace, cell, lock, strict=False, ask=ask)
        except (PatchError, IntegrityError):
            return False  # a build says why; there is no image of inputs that cannot be had
        wanted = plan_image(cell, lock, base, "", workspace.registry, workspace.root,
                            series_digest(series))
        image = engine.inspect(wanted.name)
        return image is not None and image.labels.get(label.INPUTS) == wanted.inputs

    return is_built


def _show(plans: Sequence[CellPlan]) -> None:
    console.table("", COLUMNS, [_row(plan) for plan in plans])
    if any(plan.disk_bytes is not None for plan in plans):
        console.info("disk: estimated for a build from nothing, wheels, layers and engine together")


def _row(plan: CellPlan) -> tuple[object, ...]:
    base = plan.base + ("" if plan.base_state is BaseState.LOCKED else
                        f" ({plan.base_state.value})")
    return (plan.id, plan.platform, base, plan.state.value, plan.wheels or "",
            _size(plan.fetch_bytes), _size(plan.disk_bytes), plan.action.value,
            plan.why or "; ".join(_ranges(plan)))


def _ranges(plan: CellPlan) -> Iterator[str]:
    """Say which version is locked for each axis that is a range."""
    for axis, version in plan.locked.items():
        if specifiers.is_range(plan.axes[axis]):
            yield f"{axis} {version} of {plan.axes[axis]}"


def _size(count: int | None) -> str:
    return "" if count is None else console.size(count)


def _hand_on(path: Path, plans: Sequence[CellPlan]) -> None:
    ids = buildable(plans)
    platforms = {plan.id: plan.platform for plan in plans if plan.id in ids}
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"cells={json.dumps(ids)}\nplatforms={json.dumps(platforms)}\n")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(path),
                         next_step="name a file of yours") from error
