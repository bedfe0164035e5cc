"""Our servers as the engine remembers them, and a switch that was cut off.

Before a switch stops anything it creates the new container, with a label that names the old one.
While both are there, the switch is not complete; whoever comes next can go on or go back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder import labels as label
from builder.engine.client import Engine
from builder.engine.container import ContainerState
from builder.engine.service import UNLESS_STOPPED, ServiceFacts, services
from builder.recipes.exports.service import LOOPBACK, bracketed

RECIPE, CELL, MODEL = f"{label.SERVE}recipe", f"{label.SERVE}cell", f"{label.SERVE}model"
REFERENCE, IMAGE = f"{label.SERVE}image", f"{label.SERVE}image-id"
HOST, PORT, KEY_FILE = f"{label.SERVE}host", f"{label.SERVE}port", f"{label.SERVE}api-key-file"
FLAGS, LAUNCH = f"{label.SERVE}flags", f"{label.SERVE}launch"
WHEN, BY = f"{label.SERVE}when", f"{label.SERVE}by"
RESTART, REPLACES = f"{label.SERVE}restart", f"{label.SERVE}replaces"
DIGITS = re.compile(r"[0-9]{1,5}")
ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to


@dataclass(frozen=True)
class Server:
    """One container of ours; ``since`` is its last start, or its creation."""

    id: str
    name: str
    recipe: str
    cell: str
    model: str
    image: str
    image_id: str
    host: str
    port: int
    key_file: Path | None
    flags: tuple[str, ...]
    launch: str
    when: str
    by: str
    restart: bool
    replaces: str
    state: ContainerState
    started: str

    @property
    def running(self) -> bool:
        """Say whether its container runs, or is being started again by the engine."""
        return self.state.running

    @property
    def was_started(self) -> bool:
        """Say whether it ever ran."""
        return self.state.status != "created"

    @property
    def reached_at(self) -> str:
        """Return the address of this machine at which it is asked."""
        return LOOPBACK if self.host in ANY_ADDRESS else self.host

    @property
    def url(self) -> str:
        """Return the base address of its API."""
        return f"http://{bracketed(self.reached_at)}:{self.port}/v1"


@dataclass(frozen=True)
class Switch:
    """A switch that is not complete: ``new`` is to take the place of ``old``."""

    old: Server
    new: Server


@dataclass(frozen=True)
class Survey:
    """All containers of ours, and the switch that was cut off, if one was."""

    servers: tuple[Server, ...]

    @property
    def switch(self) -> Switch | None:
        """Return the switch that is not complete."""
        by_id = {server.id: server for server in self.servers}
        return next((Switch(by_id[server.replaces], server) for server in self.servers
                     if server.replaces in by_id), None)

    @property
    def running(self) -> tuple[Server, ...]:
        """Return those that run."""
        return tuple(server for server in self.servers if server.running)

    def of(self, name: str) -> tuple[Server, ...]:
        """Return those of a recipe, or the one container of that name."""
        return tuple(server for server in self.servers if name in (server.recipe, server.name))


def survey(engine: Engine) -> Survey:
    """Ask the engine for all our servers."""
    return Survey(tuple(map(read_server, services(engine.docker, RECIPE))))


def read_server(facts: ServiceFacts) -> Server:
    """Read a container's labels; what is missing (another version wrote it) stays empty."""
    text = facts.labels.get
    port = text(PORT, "")
    return Server(
        id=facts.id, name=facts.name, recipe=text(RECIPE, ""), cell=text(CELL, ""),
        model=text(MODEL, ""), image=text(REFERENCE, ""), image_id=facts.image,
        host=text(HOST, LOOPBACK), port=int(port) if DIGITS.fullmatch(port) else 0,
        key_file=Path(text(KEY_FILE, "")) if text(KEY_FILE) else None,
        flags=_words(text(FLAGS, "")), launch=text(LAUNCH, ""), when=text(WHEN, ""),
        by=text(BY, ""), replaces=text(REPLACES, ""),
        state=facts.state, started=facts.started,
        restart=text(RESTART, "") == "yes" or facts.restart == UNLESS_STOPPED)


def names(servers: Sequence[Server]) -> str:
    """Return servers for a message: recipe and address."""
    return ", ".join(f"{server.recipe} (port {server.port})" for server in servers)


def _words(text: str) -> tuple[str, ...]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else ()
