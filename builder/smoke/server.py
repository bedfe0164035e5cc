"""Level 2: the real OpenAI server in a container, watched through its boot and then asked."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from builder import console
from builder.cells import Cell
from builder.engine import Container, Engine, RunSpec
from builder.launch import PORT, served_path, server_command
from builder.recipes import Recipe
from builder.smoke.client import Client, Unanswered
from builder.smoke.ended import ended, refuse_if_stopped
from builder.smoke.gpu import gpus_in
from builder.smoke.log_lines import log_checks
from builder.smoke.probes import ask
from builder.smoke.readiness import DEAD, Boot
from builder.smoke.seen import Seen
from builder.smoke.verdict import Check, OnCheck, Status

LOOK_EVERY_S = 2.0
HEALTH_WITHIN_S = 30.0


class Log:
    """The server's log: kept whole, and followed by a thread."""

    def __init__(self, box: Container, lines: list[str] | None = None) -> None:
        """Begin to follow the container's output into ``lines``."""
        self.lines: list[str] = [] if lines is None else lines
        self._fresh: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._box = box
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        for line in self._box.logs(follow=True):
            self.lines.append(line)
            self._fresh.put(line)

    def fresh(self, wait: float) -> Iterator[str]:
        """Yield the new lines, waiting ``wait`` seconds for the first."""
        try:
            yield self._fresh.get(timeout=wait)
            while True:
                yield self._fresh.get_nowait()
        except queue.Empty:
            return


def serve_and_ask(engine: Engine, image: str, cell: Cell, recipe: Recipe, root: Path,
                  seen: Seen, on_check: OnCheck, *, emulated: bool,
                  model: Path | None = None) -> None:
    """Boot the recipe's model, ask it, hold its log against the recipe; the container is removed.

    ``on_check`` is handed each check as it comes, ``seen`` receives the rest as it comes; ``model``
    is a folder to serve in the place of the recipe's. Raises EngineError where the engine or the
    container was stopped from outside: what was seen until then is no verdict.
    """
    with _server(engine, image, cell, recipe, root, model) as box:
        seen.gpus = gpus_in(box) if cell.is_cuda else ()
        boot = Boot(scale=10.0 if emulated else 1.0, durations=seen.phases)
        booted = watch(box, Log(box, seen.log), boot)
        on_check(booted)
        if booted.status is Status.PASS:
            client = Client(box.published_port(PORT), recipe.model.name)
            await_health(client)
            ask(client, recipe.capabilities, on_check, lambda: _gone(box, seen.log))
            healthy = _still_healthy(client, box)
            if healthy.status is Status.PASS:
                with suppress(Unanswered):  # counters are no check: the probes judge them
                    seen.metrics.update(client.metrics())
            on_check(healthy)
    for check in log_checks(recipe.log, seen.log, is_cuda=cell.is_cuda):
        on_check(check)


def _gone(box: Container, lines: Sequence[str]) -> str:
    """Return how the server ended, or its engine behind an API that goes on listening."""
    end = ended(box)
    dead = next((line.strip() for line in lines if DEAD.search(line)), "")
    if dead and not end:
        refuse_if_stopped(box)
    return end or (f"the engine died: {dead[:400]}" if dead else "")


def watch(box: Container, log: Log, boot: Boot) -> Check:
    """Follow the boot to its end: ready, dead or hung."""
    started, shown = time.monotonic(), ""
    with console.progress("boot", None, unit="lines") as meter:
        while True:
            for line in log.fresh(LOOK_EVERY_S):
                boot.line(line)
                meter.advance(1, boot.name)
            if boot.name != shown:
                shown = boot.name
                console.info(f"  {time.monotonic() - started:5.1f} s  {shown}")
            end = _ended(box, boot)
            if end is not None:
                wrong = "" if end == "ready" else end
                return Check(check="boot", status=Status.FAIL if wrong else Status.PASS,
                             detail=wrong or "ready", seconds=time.monotonic() - started)


def await_health(client: Client, within: float = HEALTH_WITHIN_S) -> None:
    """Wait until the server takes connections, which it does a moment after it says so.

    One that never does is found by the questions that follow.
    """
    end = time.monotonic() + within
    while not client.healthy() and time.monotonic() < end:
        time.sleep(0.2)


def _ended(box: Container, boot: Boot) -> str | None:
    """Return ``ready``, the reason why it never will be, or None while it boots."""
    if boot.dead:
        refuse_if_stopped(box)
        return f"the engine died: {boot.dead[:400]}"
    if boot.ready:
        return "ready"
    end = ended(box)
    return f'{end} in phase "{boot.name}"' if end else boot.hung() or None


def _still_healthy(client: Client, box: Container) -> Check:
    """Ask for health after the questions: an engine that died behind the API shows here."""
    end = ended(box)
    wrong = end or ("" if client.healthy() else "/health no longer answers 200")
    return Check(check="healthy afterwards", status=Status.FAIL if wrong else Status.PASS,
                 detail=wrong or "/health answers 200")


@contextmanager
def _server(engine: Engine, image: str, cell: Cell, recipe: Recipe, root: Path,
            model: Path | None = None) -> Iterator[Container]:
    copies: tuple[tuple[Path, str], ...] = ()
    if recipe.model.path:
        copies = ((model or root / recipe.model.path, f"/{recipe.model.name}"),)
    command = tuple(word if word != served_path(recipe) or not recipe.model.path
                    else f"/{recipe.model.name}" for word in server_command(recipe, cell))
    spec = RunSpec(image, command, platform=cell.platform, env=dict(recipe.environment),
                   ports=(PORT,), shm_size="1g", copies=copies,
                   gpus="all" if cell.is_cuda else None)
    with engine.start(spec) as box:
        yield box
