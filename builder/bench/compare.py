"""Whether a benchmark is slower than its baseline, by how much, and how certain that is.

The statistic for one point of the grid is the difference between the mean logarithms of the
samples, which is the logarithm of the ratio of their geometric means; its standard error is
Welch's. Points that measure the same thing are also tested as a group (``_group``), by the plain
mean of their differences: no point weighs more because its few samples happened to agree. The
variance of the drift between two boots of one server is added once for each side, because all
samples of one boot share it.

A point or a group is a regression when it is significantly *more* than ``MARGIN`` slower: the
p-value of "at most 3 % slower", corrected for the number of tests by Holm's method, is below
``ALPHA``. ``python -m benchmarks.regressions`` measures the error rates: of 1,000 comparisons two
raise a false alarm where nothing changed, and fifteen where everything is slower by exactly the
margin.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from builder.bench.welch import Difference, welch_error
from builder.errors import UsageError
from builder.record.bench import (
    Bench,
    Change,
    Comparison,
    Conditions,
    GridPoint,
    Metric,
    Series,
)
from builder.text import one_line

MARGIN = 0.03  # a smaller difference does not matter to users
ALPHA = 0.01  # probability of any false alarm in one comparison
DRIFT = 0.005  # standard deviation between two boots; assumed, to be measured on each machine
SHOWN = 200  # characters of a condition in a message
TESTED: tuple[Metric, ...] = ("decode", "aggregate", "prefill")  # "ttft" repeats what prefill says


def compare(baseline: Bench, new: Bench, name: str = "") -> Comparison:
    """Compare ``new`` with ``baseline``, called ``name``; raises UsageError if it is impossible."""
    refuse_other_conditions(baseline.conditions, new.conditions)
    old, fresh = _by_key(baseline.series), _by_key(new.series)
    shared = [key for key in fresh if key in old]
    if not shared:
        raise UsageError("the baseline and this benchmark have no point of the grid in common",
                         where="--baseline", next_step="run the grid of the baseline")
    return Comparison(
        baseline=name, baseline_vllm=baseline.vllm,
        changes=judge([(old[key], fresh[key]) for key in shared]),
        unmatched=tuple(sorted(f"{metric} {point.name}" for metric, point
                               in old.keys() ^ fresh.keys() if metric in TESTED)))


def refuse_other_conditions(baseline: Conditions, new: Conditions) -> None:
    """Raise UsageError that names each condition which differs; the tested software may differ."""
    then, now = baseline.model_dump(), new.model_dump()
    different = [f"{name}: {one_line(str(then[name]), SHOWN)} (baseline), "
                 f"{one_line(str(now[name]), SHOWN)} (now)" for name in now
                 if then[name] != now[name]]
    if different:
        raise UsageError("the baseline was measured under other conditions\n  "
                         + "\n  ".join(different), where="--baseline",
                         next_step="compare with a benchmark of the same machine, model and flags")


def judge(pairs: Sequence[tuple[Series, Series]]) -> tuple[Change, ...]:
    """Return the change of each group of two or more points and of each point, decode first."""
    tested = sorted((pair for pair in pairs if pair[0].metric in TESTED),
                    key=lambda pair: TESTED.index(pair[0].metric))
    groups: dict[tuple[Metric, str], list[tuple[Series, Series]]] = defaultdict(list)
    for pair in tested:
        groups[pair[0].metric, _group(pair[0])].append(pair)
    tests = [(*key, members) for key, members in groups.items() if len(members) > 1]
    tests += [(pair[0].metric, pair[0].point.name, [pair]) for pair in tested]
    differences = [difference(members) for _, _, members in tests]
    limit = math.log1p(-MARGIN)
    adjusted = holm([measured.below(limit) for measured in differences])
    return tuple(_change(metric, what, len(members), measured, p) for (metric, what, members),
                 measured, p in zip(tests, differences, adjusted, strict=True))


def difference(pairs: Sequence[tuple[Series, Series]]) -> Difference:
    """Return the mean difference of the logarithms over some points, new less old."""
    logs = [[[math.log(sample) for sample in series.samples] for series in pair] for pair in pairs]
    estimate = statistics.fmean(statistics.fmean(new) - statistics.fmean(old) for old, new in logs)
    parts = [(statistics.variance(side) / len(side) / len(pairs) ** 2, len(side))
             for pair in logs for side in pair]
    error, df = welch_error(parts, floor=2 * DRIFT ** 2)
    return Difference(estimate, error, df)


def holm(values: Iterable[float]) -> list[float]:
    """Return p-values corrected for their number (Holm 1979)."""
    listed = list(values)
    order = sorted(range(len(listed)), key=listed.__getitem__)
    adjusted, highest = [1.0] * len(listed), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(listed) - rank) * listed[place]))
        adjusted[place] = highest
    return adjusted


def _group(series: Series) -> str:
    """Name the points that measure one thing: decoding at one concurrency, one kind of prompt."""
    point = series.point
    if series.metric != "prefill":
        return f"c{point.concurrency}, all points"
    depth = f" @ d{point.depth}" if point.depth else ""
    return f"pp{point.pp}{depth} c{point.concurrency}, all points"


def _by_key(series: Iterable[Series]) -> Mapping[tuple[Metric, GridPoint], Series]:
    return {(each.metric, each.point): each for each in series}


def _change(metric: Metric, what: str, points: int, measured: Difference, p: float) -> Change:
    low, high = measured.interval()
    return Change(metric=metric, what=what, points=points, change=math.expm1(measured.estimate),
                  low=math.expm1(low), high=math.expm1(high), p=p, regression=p < ALPHA)
