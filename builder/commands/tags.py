"""Show the images of a repository and what keeps each of them; remove those that nothing needs.

Without --yes nothing is removed. An image that a tag holds, a log or a recipe names, or a passing
record proves is never removed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from builder import console
from builder.commands.option_types import whole_number
from builder.errors import UsageError
from builder.matrix.cells import select
from builder.promotion.cell import CellTags, tags_of
from builder.promotion.retention import Held, recipe_texts, standing
from builder.record.models import now
from builder.workspace import Workspace, open_workspace

MOST_DAYS = 36_500


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("tags", help="show images in the registry, or prune them",
                                   description=__doc__)
    parser.add_argument("cells", nargs="+", metavar="CELL",
                        help="cell ids or globs; all images beside theirs are looked at")
    parser.add_argument("--prune", action="store_true", help="say what would be removed")
    parser.add_argument("--days", type=whole_number(0, MOST_DAYS), metavar="N",
                        help="keep what was pushed less than N days ago (default: the matrix's "
                        "retention.days)")
    parser.add_argument("--yes", action="store_true", help="with --prune: remove it")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON document on standard output")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Show what is there, and remove what may go where that is asked for."""
    if options.yes and not options.prune:
        raise UsageError("nothing is removed without --prune", where="--yes",
                         next_step="add --prune, or leave --yes out")
    workspace = open_workspace(options.matrix, make_cache=False)
    shown = []
    for image in dict.fromkeys(cell.image for cell in select(workspace.cells, options.cells)):
        cells, days = _tags(workspace, image), _days(workspace, image, options.days)
        shown.append((cells, days, standing(
            cells, recipe_texts(workspace.root / "recipes"), days, now())))
    if options.json:
        console.document([{"repository": cells[0].repository.name, **_as_json(held)}
                          for cells, _, images in shown for held in images])
    for cells, days, images in shown:
        if not options.json:
            show(cells[0].repository.name, images, prune=options.prune)
        if options.prune and options.yes:
            _remove(workspace, cells, images, days)
    return 0


def show(name: str, images: Sequence[Held], *, prune: bool) -> None:
    """Print a row an image; with ``prune`` only those that may go."""
    chosen = [held for held in images if not (prune and held.why)]
    console.table(name, ("image", "tags", "pushed", "kept because"), [
        (held.digest, ", ".join(held.tags),
         "unknown" if held.days is None else f"{held.days:.0f} days ago",
         held.why or "nothing needs it: it may go") for held in chosen])
    console.out(f"{sum(not held.why for held in images)} of {len(images)} images may go")


def _remove(workspace: Workspace, cells: Sequence[CellTags], images: Sequence[Held], days: int
            ) -> None:
    """Remove what may go; each is looked at once more right before."""
    removed = 0
    for held in images:
        if held.why:
            continue
        again = {one.digest: one.why for one in standing(
            cells, recipe_texts(workspace.root / "recipes"), days, now())}
        if again.get(held.digest) == "":
            cells[0].repository.delete(held.digest)
            removed += 1
    console.info(f"removed {removed} images; the registry frees their bytes when its operator runs "
                 "its garbage collection")


def _tags(workspace: Workspace, image: str) -> list[CellTags]:
    """Return the tags of all cells of an image, which share a repository."""
    return [tags_of(cell, workspace.registry, workspace.root) for cell in workspace.cells
            if cell.image == image]


def _days(workspace: Workspace, image: str, asked: int | None) -> int:
    """Return the age from which an image may go: as asked for, else as the matrix has it."""
    if asked is not None:
        return asked
    return next(cell.retention.days for cell in workspace.cells if cell.image == image)


def _as_json(held: Held) -> dict[str, object]:
    return {"digest": held.digest, "tags": list(held.tags), "days": held.days,
            "kept_because": held.why or None}
