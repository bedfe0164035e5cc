"""A benchmark for its readers: the token rates as plots, and the comparison in words.

Where it was measured stands above every figure. Every axis begins at 0, so that a small difference
does not look like a large one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from builder.record.bench import UNITS, Bench, Metric, Series

TITLES: dict[Metric, str] = {
    "decode": "Decode, one request", "aggregate": "Decode, all requests together",
    "prefill": "Prefill, all requests together", "ttft": "Time to the first token"}
NOT_SPARK = "; these are not figures of a DGX Spark"
STEPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)  # round ends of an axis


@dataclass(frozen=True)
class Row:
    """One point: its samples and their mean as fractions of the axis, and the figure in words."""

    name: str
    samples: tuple[float, ...]
    mean: float
    figure: str


@dataclass(frozen=True)
class Plot:
    """One metric: ``end`` is the value at the end of the axis, which begins at 0."""

    title: str
    unit: str
    end: float
    rows: tuple[Row, ...]


def plots(bench: Bench) -> Iterator[Plot]:
    """Yield a plot for each metric that was measured."""
    for metric, title in TITLES.items():
        measured = [series for series in bench.series if series.metric == metric]
        if measured:
            end = axis_end(max(max(series.samples) for series in measured))
            yield Plot(title, UNITS[metric], end, tuple(_row(series, end) for series in measured))


def heading(cell: str, bench: Bench) -> str:
    """Return what was measured and where; what is not a GB10 is said not to be a Spark."""
    spark = "" if bench.conditions.where == "gb10" else NOT_SPARK
    return (f"bench {cell}: {bench.conditions.model}, vLLM {bench.vllm or 'of unknown version'}, "
            f"measured {bench.conditions.place}{spark}")


def comparison_lines(bench: Bench) -> Iterator[str]:
    """Yield what was not measured, the change of each group, and what only one side has."""
    yield from (f"left out: {line}" for line in bench.left_out)
    comparison = bench.comparison
    if comparison is None:
        return
    yield (f"compared with {comparison.baseline} "
           f"(vLLM {comparison.baseline_vllm or 'of unknown version'}):")
    groups = [change for change in comparison.changes if change.points > 1]
    singles = [change for change in comparison.regressions if change not in groups]
    for change in [*groups, *singles] or comparison.changes:
        yield f"  {'SLOWER' if change.regression else '      '} {change}"
    for name in comparison.unmatched:
        yield f"  not compared, because only one of the two has it: {name}"


def axis_end(largest: float) -> float:
    """Return the round value above ``largest`` that an axis ends at."""
    power = 10.0 ** math.floor(math.log10(largest))
    return power * next((step for step in STEPS if step * power >= largest), STEPS[-1])


def _row(series: Series, end: float) -> Row:
    figure = f"{series.mean:,.4g} ± {100 * series.spread:.1f} %"
    return Row(series.point.name, tuple(sample / end for sample in series.samples),
               series.mean / end, figure)
