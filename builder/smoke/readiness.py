"""The boot of a vLLM server, read from its log: phases, a dead engine, a hang.

Slow is not hung: a compile may take many minutes and still print. A hang is one phase without a
single new line for longer than that phase may be silent.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from builder.matrix import Frozen


class Phase(Frozen):
    """A stretch of the boot: it begins with the line that ``marker`` matches.

    ``silence`` is how many seconds it may pass without a line before it counts as a hang.
    """

    name: str
    marker: str
    silence: float


# vLLM's own log lines, in the order of a boot (vllm/entrypoints and vllm/v1/engine, 0.19 to 0.32).
PHASES = (
    Phase(name="start", marker=r"^", silence=300),
    Phase(name="resolve", marker=r"Resolved architecture:", silence=300),
    Phase(name="engine", marker=r"Initializing a V1 LLM engine", silence=300),
    Phase(name="weights", marker=r"Starting to load model", silence=1800),
    Phase(name="compile", marker=r"Loading weights took", silence=1800),
    Phase(name="kv cache", marker=r"KV cache size:", silence=1200),
    Phase(name="server", marker=r"init engine \(profile, create kv cache, warmup model\) took",
          silence=300),
    Phase(name="listen", marker=r"Starting vLLM (API )?server", silence=120),
    Phase(name="ready", marker=r"Application startup complete", silence=float("inf")),
)
DEAD = re.compile(r"EngineDeadError|EngineCore failed to start|Engine core initialization failed"
                  r"|EngineCore encountered a fatal error")


@dataclass
class Boot:
    """Follows a log line by line; ``clock`` is given for tests."""

    clock: Callable[[], float] = time.monotonic
    scale: float = 1.0  # emulated machines are slower: silences are multiplied by this
    phase: int = 0
    dead: str = ""
    durations: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with the first phase, now."""
        self._began = self._last = self.clock()

    @property
    def name(self) -> str:
        """Return the current phase."""
        return PHASES[self.phase].name

    @property
    def ready(self) -> bool:
        """Say whether the server says that it serves."""
        return self.phase == len(PHASES) - 1

    def line(self, text: str) -> None:
        """Take one line: it is progress, may begin a later phase or tell of a dead engine."""
        self._last = self.clock()
        if DEAD.search(text) and not self.dead:
            self.dead = text.strip()
        for number in range(len(PHASES) - 1, self.phase, -1):
            if re.search(PHASES[number].marker, text):
                self.durations[self.name] = self.clock() - self._began
                self._began, self.phase = self.clock(), number
                return

    def hung(self) -> str:
        """Return what to say of a hang; nothing while there is none."""
        silent, allowed = self.clock() - self._last, PHASES[self.phase].silence * self.scale
        if silent <= allowed:
            return ""
        return (f'no line for {silent:.0f} s in phase "{self.name}", '
                f"which may be silent for {allowed:.0f} s")
