"""The processes of a server: which of the engine's are gone, and whether any of them works.

vLLM names its processes (``VLLM::EngineCore``, ``VLLM::Worker``); the API is the container's first
one and can go on listening when the others are dead.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from builder.engine.client import Container

OURS = ("VLLM::Engine", "VLLM::Worker")
STAT = re.compile(r"^(?P<pid>\d+) \((?P<name>.*)\) (?P<state>\S) (?P<rest>.*)$")
USER, SYSTEM = 10, 11  # ticks in user and system mode, counted after the state (proc(5))
TICKS = 100  # a second, on every Linux that runs containers
WORKING = 0.03  # of one core: an idle vLLM was seen to use 0.01


@dataclass(frozen=True)
class Process:
    """One process: a zombie is dead, its parent has not looked yet."""

    pid: int
    name: str
    alive: bool
    seconds: float


def processes(text: str) -> tuple[Process, ...]:
    """Read the lines of ``/proc/*/stat``."""
    found = filter(None, map(STAT.match, text.splitlines()))
    return tuple(Process(int(one["pid"]), one["name"], one["state"] not in "ZX",
                         sum(map(int, one["rest"].split()[USER:SYSTEM + 1])) / TICKS)
                 for one in found)


def list_processes(box: Container) -> tuple[Process, ...]:
    """Return the processes of a container; none where it cannot be asked."""
    return processes(box.exec(["sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null"]).stdout)


@dataclass
class Crew:
    """Remembers the engine's processes and the processor time that all have used."""

    clock: Callable[[], float] = time.monotonic
    known: dict[int, str] = field(default_factory=dict)
    worked: float = field(init=False)  # when it was last seen to work

    def __post_init__(self) -> None:
        """Begin at work."""
        self.worked = self._at = self.clock()
        self._seconds = 0.0

    def look(self, seen: tuple[Process, ...]) -> str:
        """Take a list of processes; return the name of one of the engine's that is gone."""
        if not seen:
            return ""
        now, seconds = self.clock(), sum(one.seconds for one in seen)
        # A process that ended takes its seconds with it; that too is something happening.
        if abs(seconds - self._seconds) > WORKING * (now - self._at):
            self.worked = now
        self._at, self._seconds = now, seconds
        alive = {one.pid: one.name for one in seen if one.alive and one.name.startswith(OURS)}
        lost = [name for pid, name in self.known.items() if pid not in alive]
        self.known.update(alive)
        return lost[0] if lost else ""

    def idle(self) -> float:
        """Return for how many seconds nothing has worked, as far as was looked."""
        return self._at - self.worked
