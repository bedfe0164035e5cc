"""Decode speeds over time, one line for each cell, hardware, model and point of the grid."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from builder.record.bench import Series
from builder.record.models import Record
from builder.site.evidence import is_sample

WIDTH, MARGIN = 100.0, 1.0  # per cent, so that dots stay round whatever the width
HEIGHT, EDGE = 120.0, 8.0  # pixels


@dataclass(frozen=True)
class Point:
    """One benchmark: ``x`` in per cent, the others in pixels, and what was measured."""

    x: float
    y: float
    low: float
    high: float
    record: Record
    series: Series


@dataclass(frozen=True)
class Line:
    """The benchmarks that can be compared, oldest first; ``top`` is the end of the axis."""

    cell: str
    place: str
    model: str
    what: str
    top: float
    points: tuple[Point, ...]

    @property
    def steps(self) -> Iterator[tuple[Point, Point]]:
        """Return each point with the next one."""
        return itertools.pairwise(self.points)

    @property
    def sample(self) -> bool:
        """Say whether any of it is made up."""
        return any(is_sample(point.record) for point in self.points)


def lines(records: Sequence[Record]) -> list[Line]:
    """Return a line for each group of comparable benchmarks that reached their end."""
    groups: dict[tuple[str, str, str, str], list[tuple[Record, Series]]] = {}
    for record in sorted(records, key=lambda one: one.started):
        found = decode(record)
        if record.bench and found and record.state == "finished":
            stated = record.bench.conditions
            groups.setdefault((record.cell, stated.place, stated.model, found.point.name),
                              []).append((record, found))
    return [_line(key, group) for key, group in sorted(groups.items())]


def decode(record: Record) -> Series | None:
    """Return the decode speed of one request at the smallest point of a benchmark's grid."""
    found = [one for one in (record.bench.series if record.bench else ())
             if one.metric == "decode" and one.point.concurrency == 1]
    return min(found, key=lambda one: (one.point.depth, one.point.pp, one.point.tg), default=None)


def _line(key: tuple[str, str, str, str], group: Sequence[tuple[Record, Series]]) -> Line:
    top = max(max(series.samples) for _, series in group)
    step = (WIDTH - 2 * MARGIN) / max(len(group) - 1, 1)

    def height(value: float) -> float:
        return HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * value / top

    points = tuple(
        Point(MARGIN + number * step if len(group) > 1 else WIDTH / 2, height(series.mean),
              height(min(series.samples)), height(max(series.samples)), record, series)
        for number, (record, series) in enumerate(group))
    return Line(*key, top, points)
