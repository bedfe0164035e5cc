"""Level 2: the real OpenAI server in a container, watched through its boot and then asked."""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder import console
from builder.cells import Cell
from builder.engine import Container, Engine, RunSpec
from builder.launch import PORT, served_path, server_command
from builder.recipes import Recipe
from builder.smoke.client import Client
from builder.smoke.probes import ask
from builder.smoke.readiness import Boot
from builder.smoke.verdict import Check, Status

LOOK_EVERY_S = 2.0
HEALTH_WITHIN_S = 30.0


class Log:
    """The server's log: kept whole, and followed by a thread."""

    def __init__(self, box: Container) -> None:
        """Begin to follow the container's output."""
        self.lines: list[str] = []
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
                  log_lines: list[str], *, emulated: bool) -> tuple[list[Check], dict[str, float]]:
    """Boot the recipe's model, ask it, hold its log against the recipe; the container is removed.

    Returns the checks and the seconds of each boot phase; ``log_lines`` receives the log.
    """
    with _server(engine, image, cell, recipe, root) as box:
        log, boot = Log(box), Boot(scale=10.0 if emulated else 1.0)
        try:
            checks = [watch(box, log, boot)]
            if checks[0].status is Status.PASS:
                client = Client(box.published_port(PORT), recipe.model.name)
                await_health(client)
                checks += [*ask(client, recipe.capabilities), _still_healthy(client, box)]
        finally:
            log_lines.extend(log.lines)
    return [*checks, *log_checks(recipe, log_lines, is_cuda=cell.is_cuda)], boot.durations


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
            ended = _ended(box, boot)
            if ended is not None:
                wrong = "" if ended == "ready" else ended
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
        return f"the engine died: {boot.dead[:400]}"
    if boot.ready:
        return "ready"
    state = box.state()
    if not state.running:
        cause = " (out of memory)" if state.out_of_memory else ""
        return f'the server ended with status {state.exit_code}{cause} in phase "{boot.name}"'
    return boot.hung() or None


def log_checks(recipe: Recipe, lines: list[str], *, is_cuda: bool = False) -> Iterator[Check]:
    """Hold the log against the lines that the recipe says it must and must not show."""
    for expected in recipe.log.must_show:
        if not expected.applies(is_cuda=is_cuda):
            continue
        found = any(re.search(expected.pattern, line) for line in lines)
        yield Check(check=f"log shows {expected.pattern!r}",
                    status=Status.PASS if found else Status.FAIL, detail=expected.why)
    for refused in recipe.log.must_not_show:
        if not refused.applies(is_cuda=is_cuda):
            continue
        line = next((line for line in lines if re.search(refused.pattern, line)), "")
        yield Check(check=f"log lacks {refused.pattern!r}",
                    status=Status.FAIL if line else Status.PASS, detail=line or refused.why)


def _still_healthy(client: Client, box: Container) -> Check:
    """Ask for health after the questions: an engine that died behind the API shows here."""
    good = client.healthy() and box.state().running
    return Check(check="healthy afterwards", status=Status.PASS if good else Status.FAIL,
                 detail="/health answers 200" if good else "/health no longer answers 200")


@contextmanager
def _server(engine: Engine, image: str, cell: Cell, recipe: Recipe, root: Path
            ) -> Iterator[Container]:
    copies: tuple[tuple[Path, str], ...] = ()
    if recipe.model.path:
        copies = ((root / recipe.model.path, f"/{recipe.model.name}"),)
    command = tuple(word if word != served_path(recipe) or not recipe.model.path
                    else f"/{recipe.model.name}" for word in server_command(recipe, cell))
    spec = RunSpec(image, command, platform=cell.platform, env=dict(recipe.environment),
                   ports=(PORT,), shm_size="1g", copies=copies,
                   gpus="all" if cell.is_cuda else None)
    with engine.start(spec) as box:
        yield box
