"""Judges of a soak: pure functions over what was seen, each with the minute of the first fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from builder import console
from builder.smoke.probes.judge import of_text
from builder.smoke.soak.rules import Leak, rules
from builder.smoke.soak.samples import Sample

MOST_POINTS = 200  # of a line: all pairs of them are looked at
Point = tuple[float, float]


@dataclass(frozen=True)
class Fault:
    """What went wrong, and in which minute that began."""

    minute: float
    what: str

    def __str__(self) -> str:
        """Return it as a check says it."""
        return f"from minute {self.minute:.1f} on: {self.what}"


def frozen(samples: Sequence[Sample], limit: float) -> Fault | None:
    """Return the fault of a server that has open requests and does not move for ``limit`` minutes.

    It is one that hangs where no answer comes, and one whose counters lie where answers still come
    in the second half of that time: one that was on its way when they stood still proves nothing.
    """
    since = later = None
    for sample in samples:
        moved = sample.health == 200 and sample.worked is not None and (
            since is None or sample.worked != since.worked)
        if since is None or moved or not sample.busy:
            since = later = sample
        elif sample.minute - since.minute >= limit:
            return Fault(since.minute, _stands_still(later or since, sample))
        elif later is since and sample.minute - since.minute >= limit / 2:
            later = sample
    return None


def _stands_still(later: Sample, now: Sample) -> str:
    health = f"/health answers {now.health or 'nothing'}"
    if now.health != 200:
        return f"{health}, {now.busy} requests wait"
    if now.worked is None:
        return f"/metrics does not answer, {now.busy} requests wait, while {health}"
    if came := now.answered - later.answered:
        return (f"the counters of tokens stand still at {now.worked:g}, though {came} answers "
                f"came, while {health}")
    return (f"no token is read or written, {now.busy} requests wait ({now.running:g} of them "
            f"run in the engine), while {health}")


def slope(points: Sequence[Point]) -> float:
    """Return the slope of a line through points: the median of all pairs, deaf to outliers."""
    step = -(-len(points) // MOST_POINTS)
    pairs = combinations(points[::step or 1], 2)
    return median([(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs if b[0] > a[0]] or [0.0])


def after_warm_up(points: Sequence[Point], limits: Leak | None = None) -> list[Point]:
    """Return the points after the warm-up; none where they are too few to be judged."""
    limits = limits or rules().leak
    if not points:
        return []
    begin = max(limits.warm_up.value, points[-1][0] * limits.warm_up_share.value)
    kept = [point for point in points if point[0] >= begin]
    return kept if len(kept) >= limits.fewest.value else []


def leaking(points: Sequence[Point], limits: Leak | None = None) -> Fault | None:
    """Return the fault of memory that grows and goes on growing: (minute, bytes).

    What grows once and stays is none: the second half has to grow a quarter as fast as the whole.
    """
    limits = limits or rules().leak
    kept = after_warm_up(points, limits)
    if not kept:
        return None
    rate, late = slope(kept), slope(kept[len(kept) // 2:])
    base = median(value for _, value in kept[:3])
    grown = median(value for _, value in kept[-3:]) - base
    if rate < limits.slope.value or late < rate / 4 or grown < limits.growth.value:
        return None
    below = [at for at, (_, value) in enumerate(kept) if value <= base + limits.growth.value]
    first = kept[min(max(below, default=0) + 1, len(kept) - 1)]
    return Fault(first[0], f"memory has grown by {console.size(limits.growth.value)} and goes on "
                           f"growing: {console.size(rate)} a minute, {console.size(grown)} since "
                           f"minute {kept[0][0]:.1f}, and {console.size(kept[-1][1])} now")


def decayed(text: str, tokens: int, window: int | None = None) -> str:
    """Return where a long answer begins to be none, judged part by part; nothing for a sound one.

    ``tokens`` are those of the whole text.
    """
    window = window or int(rules().long.window.value)
    for begin in range(0, len(text), window):
        # The last part is as long as the others: it reaches back.
        at = max(0, min(begin, len(text) - window))
        if wrong := "; ".join(of_text(text[at:at + window])):
            return f"{after(text, at, tokens)}: {wrong}"
    return ""


def differs(text: str, known: str, tokens: int) -> str:
    """Return from where on an answer is another one than the known one; nothing for the same."""
    if text == known:
        return ""
    at = next((at for at, (a, b) in enumerate(zip(text, known, strict=False)) if a != b),
              min(len(text), len(known)))
    return f"{after(text, at, tokens)} it is another answer than before: {text[at:at + 60]!r}"


def after(text: str, at: int, tokens: int) -> str:
    """Say after how many tokens of the answer that is, as its length tells."""
    return f"after about {round(tokens * at / max(1, len(text)))} of {tokens} tokens"
