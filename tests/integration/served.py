"""What tests of servers share: the real server of the tiny Gemma 4, watched, and a free port."""

from __future__ import annotations

import random
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from builder import labels as label
from builder.engine.client import Engine
from builder.locking.lock import load_for
from builder.matrix.cells import Cell
from builder.recipes.load import load_recipe
from builder.smoke.log import Log
from builder.smoke.models import Run
from builder.smoke.readiness import Boot
from builder.smoke.server import start_server
from builder.smoke.watch import Watch
from builder.workspace import Workspace

PORTS = range(10_000, 32_000)  # below those that Linux gives to connections, from 32768 on


def free_port() -> int:
    """Return a port of the loopback that stays free for a server, also between two starts of it."""
    for port in random.sample(PORTS, 100):
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("none of 100 ports is free")


def left_by(pid: int, *kinds: str) -> list[str]:
    """Return the owners of what carries the name of a process: containers and networks."""
    said = "".join(subprocess.run(
        ["docker", kind, "ls", *(["--all"] if kind == "container" else []),
         "--filter", f"label={label.RUN}", "--format", '{{.Label "' + label.RUN + '"}}\n'],
        capture_output=True, text=True, check=True).stdout
        for kind in kinds or ("container", "network"))
    return [owner for owner in said.split() if f"/{pid}/" in owner]


@contextmanager
def watched_server(engine: Engine, image: str, workspace: Workspace, cell: Cell) -> Iterator[Watch]:
    """Start the server of the recipe ``tiny-gemma4`` from an image of ``cell``."""
    facts = engine.inspect(image)
    assert facts is not None, f"{image} is not built"
    run = Run(workspace, engine, cell, load_for(cell, workspace.locks), "2",
              load_recipe(workspace.root, "tiny-gemma4"), None, image, facts)
    with start_server(run) as (box, events):
        yield Watch(box, events, Log(box), Boot())
