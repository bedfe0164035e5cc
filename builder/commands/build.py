"""``sparkyard build``: build the images of locked cells; an image that is up to date is kept."""

from __future__ import annotations

import argparse
from typing import Any

from builder import console
from builder.build import Built, build
from builder.commands import push
from builder.engine.client import Engine
from builder.matrix.cells import select
from builder.workspace import open_workspace


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "build", help="build the images of locked cells",
        description="Fetch, judge and patch the wheels of locked cells and build their images. An "
                    "image that is up to date is kept.")
    parser.add_argument("cells", nargs="+", metavar="CELL", help="cell ids or globs (see the plan)")
    parser.add_argument("--base", help="only cells on this base")
    parser.add_argument("--builder", metavar="NAME",
                        help="the buildx builder to use (default: the engine's own)")
    parser.add_argument("--push", action="store_true",
                        help="then push each image under its immutable tag")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON document on standard output")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Build cell by cell, then show each image."""
    workspace = open_workspace(options.matrix)
    cells = select(workspace.cells, options.cells, {"base": options.base} if options.base else None)
    engine = Engine.connect(options.builder)
    results = [build(workspace, cell, engine) for cell in cells]
    pushed = [push.Result(result.cell.id,
                          push.push_cell(workspace, engine, result.cell, result.image))
              for result in results] if options.push else []
    if options.json:
        moved = {done.cell: push.as_json(done) for done in pushed}
        console.document([_as_json(result, moved.get(result.cell.id)) for result in results])
        return 0
    for result in results:
        _show(result)
    if pushed:
        push.show(pushed)
    return 0


def _as_json(result: Built, pushed: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "cell": result.cell.id, "image": result.plan.name, "tag": result.plan.tag,
        "id": result.image.id, "diff_ids": list(result.image.diff_ids),
        "size": result.image.size, "built": not result.up_to_date, "sent": result.sent,
        "labels": dict(result.image.labels), "seconds": dict(result.seconds),
        "layers": [{"digest": layer.digest, "size": layer.size, **layer.facts}
                   for layer in result.layers],
        "pushed": pushed,
    }


def _show(result: Built) -> None:
    if result.up_to_date:
        console.info(f"{result.cell.id}: up to date: {result.plan.name}")
    else:
        rows = [(layer.facts["kind"], _contents(layer.facts["wheels"]), console.size(layer.size),
                 layer.digest[:12]) for layer in result.layers]
        console.table(f"layers of {result.cell.id}", ("kind", "wheels", "size", "digest"), rows)
    times = ", ".join(f"{stage} {console.seconds(value)}"
                      for stage, value in result.seconds.items())
    status = f"unlocked: {result.plan.unlocked}" if result.plan.unlocked else "locked"
    console.table("", ("image", "size", "layers", "sent to the engine", "status", "time"), [(
        result.plan.name, console.size(result.image.size), len(result.image.diff_ids),
        console.size(result.sent), status, times)])
    console.info(f"{result.cell.id}: {result.image.id}; not verified on GB10 by a build")


def _contents(wheels: object) -> str:
    files = [str(file) for file in wheels] if isinstance(wheels, list | tuple) else []
    return files[0] if len(files) == 1 else f"{len(files)} wheels" if files else "none"
