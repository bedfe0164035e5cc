"""One look at a server under load: its health, its counters and the memory that it holds."""

from __future__ import annotations

import re
from dataclasses import dataclass

from builder.engine.client import Container
from builder.errors import EngineError
from builder.process import CommandError
from builder.smoke.client import HEALTH_S, Client, Unanswered
from builder.smoke.probes.counters import GENERATED, PROMPT, RUNNING, USAGE, WAITING
from builder.smoke.processes import LOOK_WITHIN_S

# Of all processes, in kB whatever the page size: what cannot be given back, and is counted once.
LOOK = "cat /proc/[0-9]*/status 2>/dev/null; echo complete"
HELD = re.compile(r"^RssAnon:\s+(\d{1,18}) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """What was seen at a minute; no counters where /metrics did not answer, no memory unseen.

    ``busy`` are our requests that wait for an answer, ``answered`` those that have had one.
    """

    minute: float
    health: int
    busy: int
    answered: int
    prompted: float | None = None
    generated: float | None = None
    running: float = 0.0
    waiting: float = 0.0
    usage: float = 0.0
    memory: int = 0

    @property
    def worked(self) -> float | None:
        """Return the tokens that the server has read and written."""
        if self.prompted is None or self.generated is None:
            return None
        return self.prompted + self.generated


def take(box: Container, client: Client, minute: float, busy: int, answered: int) -> Sample:
    """Look at the server once."""
    try:
        counters = client.metrics(timeout=HEALTH_S)
    except Unanswered:
        counters = {}
    return Sample(minute, client.health(), busy, answered, _total(counters, PROMPT),
                  _total(counters, GENERATED), _total(counters, RUNNING) or 0.0,
                  _total(counters, WAITING) or 0.0, _total(counters, USAGE) or 0.0, memory(box))


def memory(box: Container) -> int:
    """Return the bytes that all processes of a container hold; 0 where that is not seen."""
    try:
        return read_memory(box.exec(["sh", "-c", LOOK], timeout=LOOK_WITHIN_S).stdout)
    except (CommandError, EngineError):  # whether the engine is there, the state says
        return 0


def read_memory(text: str) -> int:
    """Add up the ``/proc/*/status`` of all processes; 0 for a list that was cut off."""
    if not text.endswith("complete\n"):
        return 0
    return sum(int(kilobytes) for kilobytes in HELD.findall(text)) * 1024


def _total(counters: dict[str, float], name: str) -> float | None:
    values = [value for key, value in counters.items() if key.split("{")[0] == name]
    return sum(values) if values else None
