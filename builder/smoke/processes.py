"""The processes of a server: which of the engine's are gone, and whether any of them works.

vLLM names its processes (``VLLM::EngineCore``, ``VLLM::Worker``); the API is the container's first
one and can go on listening when the others are dead.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from builder import console
from builder.engine.client import Container
from builder.errors import EngineError
from builder.process import CommandError

OURS = ("VLLM::Engine", "VLLM::Worker")
STAT = re.compile(r"^(?P<pid>\d{1,18}) \((?P<name>.*)\) (?P<state>\S) (?P<rest>.*)$")
WHOLE = re.compile(r"[0-9]{1,18}")
USER, SYSTEM = 10, 11  # ticks in user and system mode, counted after the state (proc(5))
TICKS = 100  # a second, on every Linux that runs containers
WORKING = 0.03  # of one core: an idle vLLM was seen to use 0.01
LOOK_WITHIN_S = 30.0  # a container that starves for memory may not even start `cat`
# The limit of the container and what of it cannot be given back, by cgroup version 2 and 1.
LOOK = """cat /proc/[0-9]*/stat 2>/dev/null
cd /sys/fs/cgroup && for file in memory.max memory/memory.limit_in_bytes; do
test -r $file && echo "limit $(cat $file)"; done
sed -n 's/^anon /held /p' memory.stat 2>/dev/null
sed -n 's/^total_rss /held /p' memory/memory.stat 2>/dev/null
echo complete"""
MEMORY = re.compile(r"^(limit|held) (\d{1,19})$", re.MULTILINE)
STARVED = 0.85  # of the limit: what is left cannot even hold the programs' own pages


@dataclass(frozen=True)
class Process:
    """One process: a zombie is dead, its parent has not looked yet."""

    pid: int
    name: str
    alive: bool
    seconds: float


@dataclass(frozen=True)
class Look:
    """What one look into a container shows: its processes, its memory limit and what it holds."""

    processes: tuple[Process, ...]
    limit: int = 0
    held: int = 0

    @property
    def starved(self) -> bool:
        """Say whether the memory limit is all but used up by what cannot be given back."""
        return self.limit > 0 and self.held >= STARVED * self.limit


def read_look(text: str) -> Look:
    """Read the lines of ``/proc/*/stat`` and those about memory; nothing from a list cut off."""
    if not text.endswith("complete\n"):
        return Look(())
    matches = filter(None, map(STAT.match, text.splitlines()))
    memory = {name: int(value) for name, value in MEMORY.findall(text)}
    return Look(tuple(Process(int(match["pid"]), match["name"], match["state"] not in "ZX",
                              _ticks(match["rest"]) / TICKS)
                      for match in matches), memory.get("limit", 0), memory.get("held", 0))


def _ticks(rest: str) -> int:
    """Return the processor time; programs of the image wrote the list, and may write anything."""
    return sum(int(word) for word in rest.split()[USER:SYSTEM + 1] if WHOLE.fullmatch(word))


def look_into(box: Container) -> Look:
    """Return what a container shows; nothing where it cannot be asked in time."""
    try:
        return read_look(box.exec(["sh", "-c", LOOK], timeout=LOOK_WITHIN_S).stdout)
    except (CommandError, EngineError):  # whether the engine is there, the state says
        return Look(())


@dataclass
class ProcessMonitor:
    """Remembers the engine's processes and the processor time that all have used."""

    clock: Callable[[], float] = time.monotonic
    known: dict[int, str] = field(default_factory=dict)
    last: Look = Look(())
    worked: float = field(init=False)  # when it was last seen to work

    def __post_init__(self) -> None:
        """Begin at work."""
        self.worked = self._at = self.clock()
        self._seconds = 0.0

    def update(self, look: Look) -> str:
        """Take a look; return the name of one of the engine's processes that is gone."""
        if not look.processes:
            return ""
        self.last = look
        now, seconds = self.clock(), sum(process.seconds for process in look.processes)
        # A process that ended takes its seconds with it; that too is something happening.
        if abs(seconds - self._seconds) > WORKING * (now - self._at):
            self.worked = now
        self._at, self._seconds = now, seconds
        alive = {process.pid: process.name for process in look.processes
                 if process.alive and process.name.startswith(OURS)}
        lost = [name for pid, name in self.known.items() if pid not in alive]
        self.known.update(alive)
        return lost[0] if lost else ""

    def idle(self) -> float:
        """Return for how many seconds nothing has worked, as far as was looked."""
        return self._at - self.worked

    def starvation(self) -> str:
        """Say so where the last look found the memory limit used up; nothing otherwise."""
        if not self.last.starved:
            return ""
        return (f"the container holds {console.size(self.last.held)} of the "
                f"{console.size(self.last.limit)} that it is limited to")
