"""Level 2: the real OpenAI server in a container, watched through its boot and then asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from builder.engine.client import Container, Engine, RunSpec
from builder.matrix.cells import Cell
from builder.recipes.launch import (
    COMPILE_CACHE,
    PORT,
    TEMPLATE_FILE,
    host_folders,
    served_path,
    server_command,
)
from builder.recipes.models import Recipe
from builder.record.check import OnCheck, Status
from builder.record.gpu import gpus_in
from builder.smoke.client import Client, Unanswered
from builder.smoke.log import Log
from builder.smoke.log_lines import log_checks
from builder.smoke.probes import ask
from builder.smoke.readiness import Boot
from builder.smoke.seen import Seen
from builder.smoke.template import TEMPLATE, template_check, template_copies
from builder.smoke.watch import Watch, await_health, still_healthy

HEALTH_WITHIN_S = 30.0


def serve_and_ask(engine: Engine, image: str, cell: Cell, recipe: Recipe, root: Path,
                  seen: Seen, on_check: OnCheck, *, emulated: bool,
                  model: Path | None = None) -> None:
    """Boot the recipe's model, ask it, hold its log against the recipe; the container is removed.

    ``on_check`` is handed each check as it comes, ``seen`` receives the rest as it comes; ``model``
    is a folder to serve in the place of the recipe's. Raises EngineError where the engine or the
    container was stopped from outside: what was seen until then is no verdict.
    """
    with booted(engine, image, cell, recipe, root, seen, on_check, emulated=emulated,
                model=model) as (watch, client):
        if client:
            on_check(template_check(watch.box, recipe, _loaded(recipe)))
            ask(client, recipe.capabilities, on_check, lambda: watch.gone(client))
            healthy = still_healthy(watch, client)
            if healthy.status is Status.PASS:
                with suppress(Unanswered):  # counters are no check: the probes judge them
                    seen.metrics.update(client.metrics())
            on_check(healthy)
    for check in log_checks(recipe.log, seen.log, is_cuda=cell.is_cuda):
        on_check(check)


@contextmanager
def booted(engine: Engine, image: str, cell: Cell, recipe: Recipe, root: Path, seen: Seen,
           on_check: OnCheck, *, emulated: bool, model: Path | None = None
           ) -> Iterator[tuple[Watch, Client | None]]:
    """Keep the recipe's server, booted, while the block runs; no client where it did not come up.

    The boot is a check of its own, handed to ``on_check``.
    """
    with _server(engine, image, cell, recipe, root, model) as box:
        seen.gpus = gpus_in(box) if cell.is_cuda else ()
        watch = Watch(box, Log(box, seen.log),
                      Boot(scale=10.0 if emulated else 1.0, durations=seen.phases))
        result = watch.boot()
        on_check(result)
        client = None
        if result.status is Status.PASS:
            client = Client(box.published_port(PORT), recipe.model.name)
            await_health(client, HEALTH_WITHIN_S)
        yield watch, client


@contextmanager
def _server(engine: Engine, image: str, cell: Cell, recipe: Recipe, root: Path,
            model: Path | None = None) -> Iterator[Container]:
    copies = template_copies(recipe)
    if recipe.model.path:
        copies += ((model or root / recipe.model.path, _loaded(recipe)),)
    inside = {served_path(recipe): _loaded(recipe), TEMPLATE_FILE: TEMPLATE}
    command = tuple(inside.get(word, word) for word in server_command(recipe, cell))
    environment = {**recipe.environment, **({"VLLM_CACHE_ROOT": COMPILE_CACHE} if cell.is_cuda
                                            else {})}
    spec = RunSpec(image, command, platform=cell.platform, env=environment, ports=(PORT,),
                   shm_size="1g", copies=copies, kept=host_folders(recipe, cell, Path.home()),
                   handed_on=("HF_TOKEN",) if recipe.model.repository else (),
                   gpus="all" if cell.is_cuda else None)
    with engine.start(spec) as box:
        yield box


def _loaded(recipe: Recipe) -> str:
    """Return what the server loads: the folder that is copied in, or the hub's repository."""
    return f"/{recipe.model.name}" if recipe.model.path else served_path(recipe)
