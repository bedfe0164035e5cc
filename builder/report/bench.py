"""The token rates of a benchmark as plots: a row for each cell of the grid, a dot for each sample.

Every axis begins at 0, so that a small difference does not look like a large one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from builder.record.bench import UNITS, Bench, Metric, Series

TITLES: dict[Metric, str] = {
    "decode": "Decode, one request", "aggregate": "Decode, all requests together",
    "prefill": "Prefill, all requests together", "ttft": "Time to the first token"}
STEPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)  # round ends of an axis


@dataclass(frozen=True)
class Row:
    """One cell: its samples and their mean as parts of the axis, and the figure in words."""

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
    for metric, heading in TITLES.items():
        series = [one for one in bench.series if one.metric == metric]
        if series:
            end = axis_end(max(max(one.samples) for one in series))
            yield Plot(heading, UNITS[metric], end, tuple(_row(one, end) for one in series))


def axis_end(largest: float) -> float:
    """Return the round value above ``largest`` that an axis ends at."""
    power = 10.0 ** math.floor(math.log10(largest))
    return power * next((step for step in STEPS if step * power >= largest), STEPS[-1])


def _row(series: Series, end: float) -> Row:
    figure = f"{series.mean:,.4g} ± {100 * series.spread:.1f} %"
    return Row(series.cell.name, tuple(sample / end for sample in series.samples),
               series.mean / end, figure)
