"""A server watched from outside: how its boot ends, and whether it still serves afterwards.

Three sources tell: its log, its processes and ``/health``. An API that listens proves nothing: the
engine behind it may be dead (vLLM then answers 500 or 503 for seconds and ends with status 0).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from builder import console
from builder.engine.client import Container
from builder.record.check import Check, Status
from builder.smoke.causes import first_error, shortage
from builder.smoke.client import Client
from builder.smoke.container_end import ContainerEnd, LifeEvents, find_end
from builder.smoke.log import Log
from builder.smoke.processes import ProcessMonitor, look_into
from builder.smoke.readiness import DEAD, Boot

LOOK_EVERY_S = 2.0
COUNT_EVERY_S = 10.0  # listing the processes takes a command in the container
KILLED = "it was killed, as the kernel does where memory runs out"
LAST_WORDS_S = 3.0  # a dying server still writes: the traceback comes after the first line


@dataclass
class Watch:
    """Follows one server; ``boot`` and ``gone`` share what is known of its processes."""

    box: Container
    events: LifeEvents
    log: Log
    phases: Boot
    monitor: ProcessMonitor = field(default_factory=ProcessMonitor)
    lost: str = ""
    _counted: float = float("-inf")

    def boot(self) -> Check:
        """Follow the boot to its end: ready, dead or hung."""
        started, shown = time.monotonic(), ""
        with console.progress("boot", None, unit="lines") as meter:
            while True:
                for line in self.log.fresh(LOOK_EVERY_S):
                    self.phases.line(line)
                    meter.advance(1, self.phases.name)
                if self.phases.name != shown:
                    shown = self.phases.name
                    console.info(f"  {time.monotonic() - started:5.1f} s  {shown}")
                end = "" if self.phases.ready else self._boot_ended()
                if end or self.phases.ready:
                    self.log.bounded = True
                    self.count(now=self.phases.ready)  # to know later who is missing
                    return Check(check="boot", status=Status.FAIL if end else Status.PASS,
                                 detail=end or "ready", seconds=time.monotonic() - started)

    def _boot_ended(self) -> str:
        """Return why the server will never be ready; nothing while it may."""
        where = f' in phase "{self.phases.name}"'
        if self._dead() or not self.box.state().running:
            return self.death() + where
        self.count()
        if self.lost:
            return self.death() + where
        hang = self.phases.hung(self.monitor.idle())
        lack = hang and self.monitor.starvation()
        return f"{hang} (out of memory: {lack})" if lack else hang

    def count(self, *, now: bool = False) -> None:
        """Look at the processes, now or where the last look is some time ago."""
        if now or time.monotonic() - self._counted > COUNT_EVERY_S:
            self._counted = time.monotonic()
            self.lost = self.monitor.update(look_into(self.box)) or self.lost

    def gone(self, client: Client) -> str:
        """Return how a server that was ready has died; nothing while it serves."""
        if end := self.ended():
            return end
        status = client.health()
        return f"/health answers {status}: {self.death()}" if status >= 500 else ""

    def ended(self) -> str:
        """Return how it ended, as seen without a question; nothing while its processes live."""
        if self._dead() or not self.box.state().running:
            return self.death()
        self.count(now=True)
        return self.death() if self.lost else ""

    def death(self) -> str:
        """Say how the server died, from its last words; raises EngineError for a stopped one."""
        self._listen()
        end = find_end(self.box, self.events)
        behind = self.lost and f"its process {self.lost} is gone, though the API still listens"
        line, cause = self._dead() or behind, first_error(self.log.lines)
        ended = f"the server ended with status {end.status}" if end else ""
        text = "; ".join(filter(None, (line and f"the engine died: {line}",
                                       cause and f"first error: {cause[:300]}", ended)))
        return (text or "the engine no longer answers") + self._shortage(end)

    def _shortage(self, end: ContainerEnd | None) -> str:
        """Return what to add to a death where memory ran out: the log knows best, then the end."""
        if lack := shortage(self.log.lines):
            return f" (out of memory: {lack})"
        if end and end.out_of_memory:
            return " (out of memory)"
        return f" (out of memory: {KILLED})" if end and end.killed else ""

    def _dead(self) -> str:
        return next((line.strip()[:300] for line in self.log.lines if DEAD.search(line)), "")

    def _listen(self) -> None:
        """Wait for the last lines, until none come."""
        end = time.monotonic() + LAST_WORDS_S
        while time.monotonic() < end and any(map(self._hear, self.log.fresh(1.0))):
            pass

    def _hear(self, line: str) -> bool:
        self.phases.line(line)
        return True


def still_healthy(watch: Watch, client: Client) -> Check:
    """Ask for health after the questions: an engine that died behind the API shows here."""
    wrong = watch.gone(client) or ("" if client.healthy() else "/health no longer answers 200")
    return Check(check="healthy afterwards", status=Status.FAIL if wrong else Status.PASS,
                 detail=wrong or "/health answers 200")


def await_health(client: Client, within: float) -> None:
    """Wait until the server takes connections, which it does a moment after it says so.

    The client's patience multiplies ``within``.
    One that never does is found by the questions that follow.
    """
    end = time.monotonic() + within * client.patience
    while not client.healthy() and time.monotonic() < end:
        time.sleep(0.2)
