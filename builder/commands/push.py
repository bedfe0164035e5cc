"""``sparkyard push``: push the images of locked cells under immutable and ``-next`` tags."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from builder import console
from builder.engine.client import Engine, ImageFacts
from builder.errors import EngineError, command
from builder.image import local_name
from builder.matrix.cells import Cell, select
from builder.patches.load import push_patches
from builder.publish import Pushed, push_immutable, push_next
from builder.record.models import records_folder
from builder.workspace import Workspace, open_workspace


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("push", help="push built images", description=__doc__)
    parser.add_argument("cells", nargs="+", metavar="CELL", help="cell ids or globs")
    parser.add_argument("--base", help="only cells on this base")
    parser.add_argument("--next", action="store_true",
                        help="also push the -next candidate; needs a passed smoke test")
    parser.add_argument("--since", default="", metavar="REF",
                        help="measure the update against this image (default: the last -next)")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON document on standard output")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Push cell by cell and show the manifest digests."""
    workspace = open_workspace(options.matrix, make_cache=False)
    cells = select(workspace.cells, options.cells, {"base": options.base} if options.base else None)
    engine = Engine.connect()
    results = []
    for cell in cells:
        name = local_name(workspace.registry, cell)
        image = engine.inspect(name)
        if image is None:
            raise EngineError("this cell has no image on the engine", where=name,
                              next_step="run " + command("build", cell.id))
        pushed = push_cell(workspace, engine, cell, image, options.since)
        candidate = (push_next(engine, image, name, records_folder(workspace.cache))
                     if options.next else "")
        results.append((cell.id, pushed, candidate))
    if options.json:
        console.document([as_json(*result) for result in results])
    else:
        show(results)
    return 0


def push_cell(workspace: Workspace, engine: Engine, cell: Cell, image: ImageFacts,
              since: str = "") -> Pushed:
    """Push an image under its immutable tag, and first the patches that it was made with."""
    push_patches(workspace, cell, image)
    return push_immutable(engine, image, local_name(workspace.registry, cell), since)


def as_json(cell: str, pushed: Pushed, candidate: str = "") -> dict[str, Any]:
    """Return what a push came to as one JSON value; ``to_pull`` are compressed bytes."""
    return {"cell": cell, "reference": pushed.reference, "digest": pushed.digest,
            "next": candidate or None, "size": pushed.size, "previous": pushed.previous or None,
            "to_pull": pushed.to_pull, "new_layers": [layer.digest for layer in pushed.missing]}


def show(results: Sequence[tuple[str, Pushed, str]]) -> None:
    """Print a row an image: what it is, and what an update to it costs."""
    rows = [(cell, pushed.reference.rpartition(":")[2], pushed.digest, console.size(pushed.size),
             (f"{console.size(pushed.to_pull)} in {len(pushed.missing)} of {len(pushed.layers)} "
             "layers"), pushed.previous.rpartition(":")[2] or "first image",
             "pushed" if candidate else "") for cell, pushed, candidate in results]
    console.table("pushed", ("cell", "tag", "manifest digest", "compressed", "an update pulls",
                             "from", "-next"), rows)
