"""``smoke --soak``: rounds of mixed load, a look every few seconds, and a verdict with a minute."""

from __future__ import annotations

import time

from builder import console
from builder.recipes.models import Capabilities
from builder.record.check import Check, OnCheck, Status
from builder.smoke.client import Client, Unanswered
from builder.smoke.probes.counters import not_idle, settled
from builder.smoke.soak.judges import Fault, after_warm_up, frozen, leaking, slope
from builder.smoke.soak.load import Load, lanes
from builder.smoke.soak.rules import Rules, rules
from builder.smoke.soak.samples import Sample, take
from builder.smoke.watch import Watch

MINUTE_S = 60.0
GOES_ON, IDLE, MEMORY = "soak: the server goes on", "soak: idle is empty", "soak: memory"


def soak(watch: Watch, client: Client, able: Capabilities, minutes: float, on_check: OnCheck, *,
         minute_s: float = MINUTE_S, limits: Rules | None = None) -> None:
    """Ask for so many minutes of ``minute_s`` seconds, and hand on what was found.

    Raises EngineError where the engine or the container was stopped from outside.
    """
    ran = Soak(watch, client, able, minute_s, limits or rules())
    try:
        ran.go(minutes)
    finally:
        ran.load.leave()
    for check in ran.checks():
        on_check(check)


class Soak:
    """A soak at work: its load, its looks, and the first fault of each kind."""

    def __init__(self, watch: Watch, client: Client, able: Capabilities, minute_s: float,
                 limits: Rules) -> None:
        """Begin the clock."""
        self._watch, self._client, self._limits = watch, client, limits
        self._minute_s, self._began = minute_s, time.monotonic()
        self.load = Load(client, lanes(able), self.minute)
        self.samples: list[Sample] = []
        self.pauses = self._shown = 0
        self.stopped: Fault | None = None
        self.held: Fault | None = None
        self._watched = 0.0

    def minute(self) -> float:
        """Return the minutes since the beginning."""
        return (time.monotonic() - self._began) / self._minute_s

    def go(self, minutes: float) -> None:
        """Run rounds until the time is over or the server is no more."""
        console.info(f"  soak: {minutes:g} minutes of mixed load")
        while self.minute() < minutes and not self.stopped:
            self._round(min(self.minute() + self._limits.round.value, minutes))
            if not self.stopped:
                self._pause()

    def _round(self, end: float) -> None:
        self.load.begin()
        while self.load.working():
            if self.minute() >= end:
                self.load.call_off()
            if self._look():
                return
            time.sleep(self._limits.sample.value * self._minute_s)

    def _look(self) -> bool:
        """Take a sample; say whether the server does not go on."""
        load = self.load
        found = take(self._watch.box, self._client, self.minute(), load.busy, load.answered)
        self.samples.append(found)
        load.tokens = self._written()
        self._show(found)
        tail = [one for one in self.samples[-1000:]
                if one.minute >= found.minute - 2 * self._limits.frozen.value]
        self.stopped = self._died(found) or frozen(tail, self._limits.frozen.value)
        return self.stopped is not None

    def _died(self, found: Sample) -> Fault | None:
        """Look at the container and its processes, from time to time and where health is red."""
        if found.health == 200 and found.minute - self._watched < self._limits.unwatched.value:
            return None
        self._watched = found.minute
        gone = self._watch.gone(self._client)
        return Fault(found.minute, gone) if gone else None

    def _pause(self) -> None:
        """Ask nothing for a moment: an idle server lets go of requests and of the KV cache."""
        try:
            wrong = settled(lambda: not_idle(self._client),
                            self._limits.idle.value * self._minute_s)
        except Unanswered as error:
            wrong = str(error)
        self.pauses += 1
        if wrong and not self.held:
            self.held = Fault(self.minute(), f"{wrong}, though nothing is asked")

    def _written(self) -> float:
        counted = [one.generated for one in self.samples if one.generated is not None]
        return counted[-1] - counted[0] if counted else 0.0

    def _show(self, found: Sample) -> None:
        """Print one line for each minute."""
        if int(found.minute) <= self._shown:
            return
        self._shown = int(found.minute)
        wrong = sum(tally.wrong for tally in self.load.tallies.values())
        console.info(f"  minute {self._shown}: {found.answered} answers, {wrong} wrong; "
                     f"{self.load.tokens:,.0f} tokens written; KV cache {found.usage:.1%}; "
                     f"memory {console.size(found.memory)}")

    def checks(self) -> list[Check]:
        """Return what was found, one check for each thing that was watched."""
        kinds = [tally.check(kind) for kind, tally in sorted(self.load.tallies.items())]
        return [self._goes_on(), self._idle(), self._memory(), *kinds]

    def _goes_on(self) -> Check:
        said = (f"{self.load.answered} answers and {self._written():,.0f} tokens in "
                f"{self.minute():.1f} minutes")
        return _check(GOES_ON, self.stopped, said, self.minute() * self._minute_s)

    def _idle(self) -> Check:
        if not self.pauses:
            return Check(check=IDLE, status=Status.NOT_APPLICABLE, detail="there was no pause")
        return _check(IDLE, self.held, f"no request was left and no KV cache was held; pauses: "
                                       f"{self.pauses}")

    def _memory(self) -> Check:
        points = [(one.minute, float(one.memory)) for one in self.samples if one.memory]
        kept = after_warm_up(points, self._limits.leak)
        if not kept:
            return Check(check=MEMORY, status=Status.NOT_APPLICABLE,
                         detail="too little was seen of it after the warm-up")
        return _check(MEMORY, leaking(points, self._limits.leak),
                      f"{console.size(kept[0][1])} in minute {kept[0][0]:.1f}, "
                      f"{console.size(kept[-1][1])} in minute {kept[-1][0]:.1f}; the line through "
                      f"it: {slope(kept) / 1e6:+.2f} MB a minute")


def _check(name: str, fault: Fault | None, detail: str, seconds: float = 0.0) -> Check:
    return Check(check=name, status=Status.FAIL if fault else Status.PASS,
                 detail=str(fault) if fault else detail, seconds=seconds)
