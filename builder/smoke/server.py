"""Level 2: the real OpenAI server in a container, watched through its boot and then asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from builder import console
from builder.engine.client import Container, RunSpec
from builder.recipes.launch import (
    COMPILE_CACHE,
    HUB_CACHE,
    PORT,
    TEMPLATE_FILE,
    host_folders,
    served_path,
    server_command,
)
from builder.recipes.load import FOLDER
from builder.recipes.models import Recipe
from builder.record.check import OnCheck, Status
from builder.record.gpu import gpus_in
from builder.smoke.client import Client, Unanswered
from builder.smoke.container_end import LifeEvents, running
from builder.smoke.log import Log
from builder.smoke.log_lines import log_checks
from builder.smoke.models import Observations, Run
from builder.smoke.probes.run import ask
from builder.smoke.readiness import Boot
from builder.smoke.soak.rules import patient
from builder.smoke.soak.run import soak
from builder.smoke.template import TEMPLATE, template_check, template_copies
from builder.smoke.watch import Watch, await_health, still_healthy

HEALTH_WITHIN_S = 30.0
# Flags of vLLM by which a recipe decides itself whether and how the model is compiled.
CHOOSES_COMPILATION = ("--enforce-eager", "--compilation-config", "-cc", "-O",
                       "--optimization-level")
LOG_END_WITHIN_S = 10.0  # for the last lines of a server whose container was removed


def serve_and_ask(run: Run, observed: Observations, on_check: OnCheck) -> None:
    """Boot the recipe's model, ask it, compare its log with the recipe; the container is removed.

    ``on_check`` is handed each check as it comes, ``observed`` receives the rest as it comes.
    Raises EngineError where the engine or the container was stopped from outside: what was seen
    until then is no verdict.
    """
    with booted(run, observed, on_check) as (watch, client):
        if client:
            on_check(template_check(watch.box, run.recipe, loaded_path(run.recipe),
                                    run.patience))
            ask(client, run.recipe.capabilities, on_check, lambda: watch.gone(client))
            if run.soak and not watch.gone(client):
                soak(watch, client, run.recipe.capabilities, run.soak, on_check,
                     limits=patient(run.patience))
            healthy = still_healthy(watch, client)
            if healthy.status is Status.PASS:
                with suppress(Unanswered):  # counters are no check: the probes judge them
                    observed.metrics.update(client.metrics())
            on_check(healthy)
    watch.log.join(LOG_END_WITHIN_S)  # a line that has not come yet is not missing
    for check in log_checks(run.recipe.log, observed.log, is_cuda=run.cell.is_cuda):
        on_check(check)


@contextmanager
def booted(run: Run, observed: Observations, on_check: OnCheck
           ) -> Iterator[tuple[Watch, Client | None]]:
    """Keep the recipe's server, booted, while the block runs; no client where it did not come up.

    The boot is a check of its own, handed to ``on_check``.
    """
    if hint := slow_boot(run):
        console.info(f"  {hint}")
    with start_server(run) as (box, events):
        observed.gpus = gpus_in(box) if run.cell.is_cuda else ()
        watch = Watch(box, events, Log(box, observed.log),
                      Boot(scale=run.patience, durations=observed.phases))
        result = watch.boot()
        on_check(result)
        client = None
        if result.status is Status.PASS:
            client = Client(box.published_port(PORT), run.recipe.model.name,
                            patience=run.patience)
            await_health(client, HEALTH_WITHIN_S)
        yield watch, client


def slow_boot(run: Run) -> str:
    """Say before the boot what will take long in it, and how to leave that out; or nothing."""
    words = run.recipe.serve
    if any(word.startswith(CHOOSES_COMPILATION) for word in words):
        return ""
    compiles = ("the server compiles the model before it answers (torch.compile): that took 8 "
                "minutes on two CPU cores")
    if run.cell.is_cuda:
        compiles = ("the server compiles the model and captures CUDA graphs before it answers: "
                    "minutes the first time, less when it finds its compile cache")
    emulated = ", and many times as long under emulation" if run.emulated else ""
    return (f'{compiles}{emulated}. To test without: add "--enforce-eager" to serve in '
            f"{FOLDER}/{run.recipe.name}.toml")


def start_server(run: Run) -> AbstractContextManager[tuple[Container, LifeEvents]]:
    """Run the recipe's server in the background for the length of a ``with`` block."""
    return running(run.engine, server_spec(run))


def server_spec(run: Run) -> RunSpec:
    """Return the container of the recipe's server."""
    recipe, cell = run.recipe, run.cell
    copies = template_copies(recipe)
    if recipe.model.path:
        folder = run.model or run.workspace.root / recipe.model.path
        copies += ((folder, loaded_path(recipe)),)
    inside = {served_path(recipe): loaded_path(recipe), TEMPLATE_FILE: TEMPLATE}
    command = tuple(inside.get(word, word) for word in server_command(recipe, cell))
    # For an image that is not ours, too: the mounts are of no use to a server that looks elsewhere.
    environment = {**recipe.environment,
                   **({"VLLM_CACHE_ROOT": COMPILE_CACHE} if cell.is_cuda else {}),
                   **({"HF_HOME": HUB_CACHE} if recipe.model.repository else {})}
    return RunSpec(
        run.reference, command, platform=cell.platform, env=environment, ports=(PORT,),
        shm_size="1g", copies=copies, writable_mounts=host_folders(recipe, cell),
        forwarded_env=("HF_TOKEN",) if recipe.model.repository else (),
        gpus="all" if cell.is_cuda else None)


def loaded_path(recipe: Recipe) -> str:
    """Return what the server loads: the folder that is copied in, or the hub's repository."""
    return f"/{recipe.model.name}" if recipe.model.path else served_path(recipe)
