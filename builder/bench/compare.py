"""Whether a benchmark is slower than its baseline, by how much, and how sure that is.

The statistic, for one cell of the grid: the difference of the mean logarithms of the samples,
which is the logarithm of the ratio of geometric means; its error is Welch's. Cells that measure
the same thing are also taken together (``_group``), as the plain mean of their differences: no
cell is trusted more because its few samples happened to agree. To either variance the drift
between two boots of one server is added, once for each side, since every sample of a boot shares
it.

A cell or a group is a regression when it is significantly *more* than ``MARGIN`` slower: the
p-value of "at most 3 % slower", corrected for the number of such questions by Holm's method, is
below ``ALPHA``. ``python -m benchmarks.regressions`` measures what that gives: of a thousand
comparisons two cry wolf where nothing changed, fifteen where all is slower by the margin itself.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from builder.bench.welch import Difference, welch_error
from builder.errors import UsageError
from builder.record.bench import Bench, Cell, Comparison, Conditions, Finding, Metric, Series

MARGIN = 0.03  # slower by less is nobody's business
ALPHA = 0.01  # chance of any false alarm in one comparison
DRIFT = 0.005  # standard deviation between two boots; assumed, to be measured on each machine
TESTED: tuple[Metric, ...] = ("decode", "aggregate", "prefill")  # "ttft" says what prefill says


def compare(baseline: Bench, new: Bench, name: str = "") -> Comparison:
    """Hold ``new`` against ``baseline``, called ``name``; raises UsageError where none can be."""
    refuse_unlike(baseline.conditions, new.conditions)
    old, fresh = _by_key(baseline.series), _by_key(new.series)
    shared = [key for key in fresh if key in old]
    if not shared:
        raise UsageError("the baseline has no cell of the grid in common with this benchmark",
                         where="--baseline", next_step="run the same grid")
    return Comparison(
        baseline=name, baseline_vllm=baseline.vllm,
        findings=judge([(old[key], fresh[key]) for key in shared]),
        only_in_one=tuple(sorted(f"{metric} {cell.name}" for metric, cell
                                 in old.keys() ^ fresh.keys() if metric in TESTED)))


def refuse_unlike(baseline: Conditions, new: Conditions) -> None:
    """Raise UsageError that names each condition which differs; the software tested may."""
    there, here = baseline.model_dump(), new.model_dump()
    unlike = [f"{name}: {there[name]} there, {here[name]} here"
              for name in here if there[name] != here[name]]
    if unlike:
        raise UsageError("the baseline was measured under other conditions\n  "
                         + "\n  ".join(unlike), where="--baseline",
                         next_step="compare with a benchmark of the same machine, model and flags")


def judge(pairs: Sequence[tuple[Series, Series]]) -> tuple[Finding, ...]:
    """Return a finding for each group of more than one cell and for each cell, decode first."""
    tested = sorted((pair for pair in pairs if pair[0].metric in TESTED),
                    key=lambda pair: TESTED.index(pair[0].metric))
    groups: dict[tuple[Metric, str], list[tuple[Series, Series]]] = defaultdict(list)
    for pair in tested:
        groups[pair[0].metric, _group(pair[0])].append(pair)
    questions = [(*key, members) for key, members in groups.items() if len(members) > 1]
    questions += [(pair[0].metric, pair[0].cell.name, [pair]) for pair in tested]
    differences = [difference(members) for _, _, members in questions]
    limit = math.log1p(-MARGIN)
    adjusted = holm([found.below(limit) for found in differences])
    return tuple(_finding(metric, what, len(members), found, p) for (metric, what, members),
                 found, p in zip(questions, differences, adjusted, strict=True))


def difference(pairs: Sequence[tuple[Series, Series]]) -> Difference:
    """Return the mean difference of the logarithms over some cells, new less old."""
    logs = [[[math.log(sample) for sample in series.samples] for series in pair] for pair in pairs]
    estimate = statistics.fmean(statistics.fmean(new) - statistics.fmean(old) for old, new in logs)
    parts = [(statistics.variance(side) / len(side) / len(pairs) ** 2, len(side))
             for pair in logs for side in pair]
    error, df = welch_error(parts, floor=2 * DRIFT ** 2)
    return Difference(estimate, error, df)


def holm(values: Iterable[float]) -> list[float]:
    """Return p-values corrected for their number (Holm 1979): any error at most alpha."""
    listed = list(values)
    order = sorted(range(len(listed)), key=listed.__getitem__)
    adjusted, highest = [1.0] * len(listed), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(listed) - rank) * listed[place]))
        adjusted[place] = highest
    return adjusted


def _group(series: Series) -> str:
    """Name the cells that measure one thing: decoding at one concurrency, one kind of prompt."""
    cell = series.cell
    if series.metric != "prefill":
        return f"c{cell.concurrency}, all cells"
    return f"pp{cell.pp}{f' @ d{cell.depth}' if cell.depth else ''} c{cell.concurrency}, all cells"


def _by_key(series: Iterable[Series]) -> Mapping[tuple[Metric, Cell], Series]:
    return {(each.metric, each.cell): each for each in series}


def _finding(metric: Metric, what: str, cells: int, found: Difference, p: float) -> Finding:
    low, high = found.interval()
    return Finding(metric=metric, what=what, cells=cells, change=math.expm1(found.estimate),
                   low=math.expm1(low), high=math.expm1(high), p=p,
                   regression=p < ALPHA)
