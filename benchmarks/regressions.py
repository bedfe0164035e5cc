"""How often `bench` finds a regression and how often it raises a false alarm: `python -m
benchmarks.regressions [REPETITIONS [SEED]]`.

Synthetic benchmarks with the published noise of one GB10 (``benchmarks/published.py``), each
compared with a baseline of the same noise by the code that the command uses. Columns: how often a
metric that is more than 3 % slower is flagged, and any other one; the change that the group of all
decode points at c1 shows, and how often its 95 % interval contains the true one.
"""  # noqa: D205

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.published import Factors, draw
from builder.bench.compare import DRIFT, MARGIN, judge
from builder.record.bench import Metric


@dataclass(frozen=True)
class Case:
    """A true change, and the noise around it."""

    name: str
    factors: Factors = field(default_factory=dict)
    drift: float = DRIFT
    runs: int = 3
    heavy: bool = False
    concurrency: tuple[int, ...] = (1, 2, 4)

    def slower(self) -> set[Metric]:
        """Return the metrics that are truly more than the margin slower."""
        factors = {"aggregate": self.factors.get("decode", 1.0), **self.factors}
        return {metric for metric, factor in factors.items()
                if factor < 1 - MARGIN}


def everything(factor: float) -> Mapping[Metric, float]:
    """Slow all metrics down by one factor."""
    return {"prefill": factor, "decode": factor, "aggregate": factor}


DECODE_8: Factors = {"decode": 0.92}
CASES = (
    Case("no change"),
    Case("no change, heavy tails", heavy=True),
    Case("no change, twice the drift assumed", drift=2 * DRIFT),
    Case("decode 1 % slower", {"decode": 0.99}),
    Case("decode 1 % slower, heavy tails", {"decode": 0.99}, heavy=True),
    Case("all 3 % slower (the margin itself)", everything(0.97)),
    Case("decode 5 % slower", {"decode": 0.95}),
    Case("decode 8 % slower", DECODE_8),
    Case("decode 8 % slower, heavy tails", DECODE_8, heavy=True),
    Case("decode 8 % slower, twice the drift", DECODE_8, drift=2 * DRIFT),
    Case("decode 8 % slower, c2 and c4 only", DECODE_8, concurrency=(2, 4)),
    Case("decode 8 % slower, c2 and c4 only, 10 runs", DECODE_8, concurrency=(2, 4), runs=10),
    Case("decode 13.6 % slower, as reported", {"decode": 69.1 / 80.0}),
    Case("prefill 10 % slower, as reported", {"prefill": 0.90}),
    Case("prefill 18 % slower, as reported", {"prefill": 0.82}),
)


@dataclass(frozen=True)
class Rates:
    """The outcome of the repetitions of a case, as fractions; NaN where nothing was counted."""

    caught: float
    false: float
    size: float
    held: float


def measure(case: Case, repetitions: int, seed: int) -> Rates:
    """Draw both sides again for each repetition and count."""
    dice = random.Random(f"{seed} {case.name}")
    slower = case.slower()
    truth = case.factors.get("decode", 1.0) - 1
    caught, false, sizes, held = 0, 0, [], 0
    for _ in range(repetitions):
        old, new = (draw(dice, factors=factors, drift=case.drift, runs=case.runs,
                         heavy=case.heavy, concurrency=case.concurrency)
                    for factors in ({}, case.factors))
        changes = judge(list(zip(old, new, strict=True)))
        flagged = {change.metric for change in changes if change.regression}
        caught += bool(flagged & slower)
        false += bool(flagged - slower)
        for change in changes:
            if change.metric == "decode" and change.what.startswith("c1,"):
                sizes.append(change.change)
                held += change.low <= truth <= change.high
    return Rates(caught / repetitions if slower else math.nan, false / repetitions,
                 statistics.fmean(sizes) if sizes else math.nan,
                 held / len(sizes) if sizes else math.nan)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repetitions", nargs="?", default=1000, type=int,
                        help="comparisons of each kind (default: %(default)s)")
    parser.add_argument("seed", nargs="?", default=5, type=int,
                        help="of the noise (default: %(default)s)")
    options = parser.parse_args()
    repetitions, seed = options.repetitions, options.seed
    print(f"{repetitions} repetitions each, seed {seed}")
    print(f"{'true change':45} {'flagged':>9} {'falsely':>9} {'decode c1':>9} {'held':>9}")
    for case in CASES:
        rates = measure(case, repetitions, seed)
        shown = (_percent(rates.caught, 1), _percent(rates.false, 2), _percent(rates.size, 2),
                 _percent(rates.held, 1))
        print(f"{case.name:45} " + " ".join(f"{each:>9}" for each in shown), flush=True)


def _percent(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.{digits}f} %"


if __name__ == "__main__":
    main()
