"""``sparkyard sync``: bring a built image to other machines, of which only what they lack moves."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from builder import console
from builder.commands.push import siblings
from builder.engine.client import Engine
from builder.errors import EngineError, command
from builder.image import local_name
from builder.matrix.cells import Cell, select
from builder.peers import Image, Received, bring, check_host, check_registry, reach
from builder.publish import push_without_engine
from builder.store.compressed import Compression
from builder.store.content_store import Store
from builder.workspace import Workspace, open_workspace


@dataclass(frozen=True)
class Synced:
    """One cell on one machine."""

    cell: str
    image: Image
    received: Received

    @property
    def size(self) -> int:
        """Return the compressed bytes of the whole image."""
        return sum(layer.size for layer in self.image.layers)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "sync", help="bring built images to other machines",
        description="Push the images of locked cells to the registry of this machine, and let the "
                    "Docker engines of other machines pull from it through ssh. Only layers that "
                    "they lack move.")
    parser.add_argument("cells", nargs="+", metavar="CELL", help="cell ids or globs")
    parser.add_argument("--to", nargs="+", required=True, metavar="HOST",
                        help="machines as ssh knows them: HOST or USER@HOST")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON document on standard output")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Push cell by cell, and bring each to every machine."""
    hosts = [check_host(host) for host in dict.fromkeys(options.to)]
    workspace = open_workspace(options.matrix)
    check_registry(workspace.registry)
    cells = select(workspace.cells, options.cells, None)
    engine = Engine.connect()
    for host in hosts:
        reach(host, workspace.registry)
    done = []
    for cell in cells:
        image = pushed(workspace, engine, cell)
        for host in hosts:
            console.info(f"{cell.id}: {host} pulls what it lacks")
            done.append(Synced(cell.id, image, bring(image, host)))
    if options.json:
        console.document([as_json(one) for one in done])
    else:
        show(done)
    return 0


def pushed(workspace: Workspace, engine: Engine, cell: Cell) -> Image:
    """Bring a cell's image into this machine's registry, and return what a peer is to have."""
    name = local_name(workspace.registry, cell)
    image = engine.inspect(name)
    if image is None:
        raise EngineError("this cell has no image on the engine", where=name,
                          next_step=f"run {command('build', cell.id)}")
    _, direct, _ = push_without_engine(
        engine, Store(workspace.cache), image, name, records=None, siblings=siblings(workspace),
        compression=Compression.ZSTD)
    return Image(direct.reference, direct.digest, direct.config, direct.layers,
                 (name, direct.reference))


def as_json(done: Synced) -> dict[str, Any]:
    """Return what came to one machine as one JSON value; sizes are compressed bytes."""
    return {"cell": done.cell, "host": done.received.host, "reference": done.image.reference,
            "digest": done.image.digest, "image": done.received.id, "size": done.size,
            "layers": len(done.image.layers), "pulled": done.received.bytes,
            "pulled_layers": [layer.digest for layer in done.received.pulled],
            "seconds": round(done.received.seconds, 2)}


def show(done: Sequence[Synced]) -> None:
    """Print a row a machine: what it had to pull."""
    rows = [(one.cell, one.received.host, console.size(one.size),
             (f"{console.size(one.received.bytes)} in {len(one.received.pulled)} of "
              f"{len(one.image.layers)} layers"), console.seconds(one.received.seconds))
            for one in done]
    console.table("synced", ("cell", "to", "compressed", "pulled there", "time"), rows)
