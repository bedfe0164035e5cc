"""The boot of a vLLM server, read from its log: its phases, a dead engine, a hang.

Slow is not hung: a compile may take many minutes and still print, or be silent and still work. A
boot hangs if no new line comes for longer than its phase may be silent, or for longer than it may
be idle while nothing in the container uses the processor either.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from builder.model import Frozen


class Phase(Frozen):
    """A stretch of the boot: it begins with the line that ``marker`` matches.

    ``silence`` is how many seconds it may pass without a line, ``idle`` without a line and without
    work. ``took`` is the line by which the server itself says, afterwards, how long it took: a
    progress bar's only line comes when it ends, and a compile begins before its first line.
    """

    name: str
    marker: str
    silence: float
    idle: float = 300
    took: str = r"(?!)"


# vLLM's own log lines, in the order of a boot (vllm/entrypoints and vllm/v1, 0.19 to 0.32). An
# eager server goes without compile and graphs. Weights may come over a slow network, and a big
# context may be warmed up for long: these wait without working.
PHASES = (
    Phase(name="start", marker=r"^", silence=300),
    Phase(name="resolve", marker=r"Resolved architecture:", silence=300),
    Phase(name="engine", marker=r"Initializing a V1 LLM engine", silence=300),
    Phase(name="weights", marker=r"Starting to load model", silence=1800, idle=1800),
    Phase(name="warm-up", marker=r"Loading weights took|Model loading took", silence=1800),
    Phase(name="compile", silence=1800,
          marker=r"for vLLM's torch\.compile|vLLM's torch\.compile cache is disabled"
                 r"|Dynamo bytecode transform time|Compiling a graph for|Directly load"
                 r"|Warming up model for the compilation|saved AOT compiled function",
          took=r"torch\.compile (?:took|takes) (?P<seconds>[\d.]+) s in total"),
    Phase(name="profile", silence=1800,
          marker=r"torch\.compile (?:took|takes) [\d.]+ s in total"
                 r"|Initial profiling/warmup run took"),
    Phase(name="kv cache", marker=r"Available KV cache memory|KV cache size:", silence=1200),
    Phase(name="graphs", marker=r"Capturing CUDA graphs?\b", silence=1200,
          took=r"Graph capturing finished in (?P<seconds>[\d.]+) secs"),
    Phase(name="server", marker=r"init engine \(profile, create kv cache, warmup model\) took",
          silence=300),
    Phase(name="listen", marker=r"Starting vLLM (API )?server", silence=120, idle=120),
    Phase(name="ready", marker=r"Application startup complete", silence=float("inf"),
          idle=float("inf")),
)
# Written every minute by a process that waits for another one, whether that one works or hangs.
WAITING = re.compile(r"No available shared memory broadcast block found in \d+ seconds")
DEAD = re.compile(r"EngineDeadError|EngineCore failed to start|Engine core initialization failed"
                  r"|EngineCore encountered a fatal error|WorkerProc failed to start"
                  r"|([Ww]orker|[Ee]ngine core) ?(proc|process)? .*died unexpectedly"
                  r"|WorkerProc rank=\d+ died|engine core exited unexpectedly")


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
        if not WAITING.search(text):
            self._last = self.clock()
        if DEAD.search(text) and not self.dead:
            self.dead = text.strip()
        for number in range(len(PHASES) - 1, self.phase, -1):
            if re.search(PHASES[number].marker, text):
                self._go_on(number)
                break
        for number, phase in enumerate(PHASES):
            if stated := re.search(phase.took, text):
                self._go_on(max(number, self.phase))
                self._move(phase.name, float(stated["seconds"]))

    def _go_on(self, number: int) -> None:
        now = self.clock()
        self.durations[self.name] = self.durations.get(self.name, 0.0) + now - self._began
        self._began, self.phase = now, number

    def _move(self, name: str, stated: float) -> None:
        """Give a phase the seconds that it took, out of those counted for the phases before."""
        missing = stated - self.durations.get(name, 0.0)
        for earlier in [phase.name for phase in PHASES[self.phase - 1::-1]]:
            moved = max(0.0, min(missing, self.durations.get(earlier, 0.0)))
            if moved and earlier != name:
                self.durations[earlier] -= moved
                self.durations[name] = self.durations.get(name, 0.0) + moved
                missing -= moved

    def hung(self, idle: float = 0.0) -> str:
        """Return what to say of a hang; ``idle`` is for how long nothing has worked."""
        phase, silent = PHASES[self.phase], self.clock() - self._last
        if silent > phase.silence * self.scale:
            return (f'no line for {silent:.0f} s in phase "{self.name}", '
                    f"which may be silent for {phase.silence * self.scale:.0f} s")
        if min(silent, idle) > phase.idle * self.scale:
            return (f'no line for {silent:.0f} s in phase "{self.name}", and for {idle:.0f} s '
                    "nothing has used the processor: it hangs")
        return ""
