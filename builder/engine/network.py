"""A network of containers that exists for a ``with`` block only; its containers find each other."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from builder import labels as label
from builder import limits
from builder.engine.docker import DockerClient
from builder.engine.leftovers import own_name


@contextmanager
def network(docker: DockerClient) -> Iterator[str]:
    """Make a network and yield its name; containers must have left it at the end of the block.

    It carries the label of its process, by which ``leftovers.sweep`` finds what a killed one left.
    """
    name = f"sparkyard-{secrets.token_hex(6)}"
    docker.run("network", "create", "--label", f"{label.RUN}={own_name()}", name,
               doing="making a network", timeout=limits.ENGINE_CHANGE_S)
    try:
        yield name
    finally:
        docker.run("network", "rm", name, doing="removing a network", check=False,
                   timeout=limits.ENGINE_CHANGE_S)
