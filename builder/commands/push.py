"""``sparkyard push``: locked images to the registry under immutable and ``-next`` tags."""

from __future__ import annotations

import argparse

from builder import console
from builder.cells import select
from builder.engine import Engine
from builder.errors import EngineError
from builder.image import local_name
from builder.publish import push_immutable, push_next
from builder.record import records_folder
from builder.workspace import open_workspace


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("push", help="push built images", description=__doc__)
    parser.add_argument("cells", nargs="+", metavar="CELL", help="cell ids, globs allowed")
    parser.add_argument("--base", help="take the cells on this base")
    parser.add_argument("--next", action="store_true",
                        help="also push the -next candidate, if the image passed its smoke")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Push cell by cell and show the manifest digests."""
    workspace = open_workspace(options.matrix)
    cells = select(workspace.cells, options.cells, {"base": options.base} if options.base else None)
    engine = Engine.connect()
    rows = []
    for cell in cells:
        name = local_name(workspace.registry, cell)
        image = engine.inspect(name)
        if image is None:
            raise EngineError("there is no image of this cell", where=name,
                              next_step=f"run `sparkyard build {cell.id}`")
        rows.append((cell.id, "immutable", push_immutable(engine, image)))
        if options.next:
            rows.append((cell.id, "next", push_next(engine, image, name,
                                                    records_folder(workspace.cache))))
    console.table("pushed", ("cell", "tag", "manifest digest"), rows)
    return 0
