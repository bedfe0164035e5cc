"""From llama-benchy's JSON to series with one sample per run; what cannot be used is named."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from builder.bench.benchy import AGAIN
from builder.bench.events import Request
from builder.errors import VerdictError
from builder.record.bench import MIN_RUNS, GridPoint, Metric, Series
from builder.wording import first_violation

# Metric -> llama-benchy's name where one request runs, and where several run side by side.
NAMES: Mapping[Metric, tuple[str, str]] = {
    "prefill": ("pp_throughput", "pp_throughput"),
    "decode": ("tg_throughput", "tg_req_throughput"),
    "aggregate": ("", "tg_throughput"),
    "ttft": ("e2e_ttft", "e2e_ttft"),
}
DECODING = ("decode", "aggregate")  # timed from an answer's first chunk to its last
PER_REQUEST = ("tg_req_throughput", "e2e_ttft")  # the others have one value per run


class Values(BaseModel):
    """The samples of one metric, as llama-benchy writes them; its mean and spread follow."""

    model_config = ConfigDict(frozen=True)
    values: tuple[float, ...]


class Entry(BaseModel):
    """One point of llama-benchy's JSON; a metric without samples is None."""

    model_config = ConfigDict(frozen=True)
    concurrency: Annotated[int, Field(ge=1)]
    context_size: Annotated[int, Field(ge=0)]
    prompt_size: Annotated[int, Field(ge=1)]
    response_size: Annotated[int, Field(ge=1)]
    is_context_prefill_phase: bool = False
    pp_throughput: Values | None = None
    tg_throughput: Values | None = None
    tg_req_throughput: Values | None = None
    e2e_ttft: Values | None = None

    @property
    def point(self) -> GridPoint:
        """Return the point of the grid."""
        return GridPoint(pp=self.prompt_size, tg=self.response_size, depth=self.context_size,
                         concurrency=self.concurrency)


class Report(BaseModel):
    """llama-benchy's JSON, as far as it is read."""

    model_config = ConfigDict(frozen=True)
    version: str
    model: str
    benchmarks: tuple[Entry, ...]


def parse(raw: Any, requests: Mapping[GridPoint, Sequence[Request]]
          ) -> tuple[tuple[Series, ...], tuple[str, ...]]:
    """Return the series and what is missing, in words; raises VerdictError for unusable JSON."""
    try:
        report = Report.model_validate(raw)
    except ValidationError as error:
        place, what = first_violation(error)
        raise VerdictError(f"llama-benchy's result cannot be used: {what}", where=place,
                           next_step=AGAIN) from error
    series: list[Series] = []
    missing: list[str] = []
    for entry in report.benchmarks:
        if entry.is_context_prefill_phase:
            continue
        measured, lost = _point(entry, requests.get(entry.point, ()))
        series += measured
        missing += [f"{entry.point.name}: {why}" for why in lost]
    return tuple(series), tuple(missing)


def _point(entry: Entry, asked: Sequence[Request]) -> tuple[list[Series], list[str]]:
    """Return the series of one point, and why one is missing or shorter."""
    runs = {request.run for request in asked}
    complete = _complete_runs(asked, entry.response_size)
    lost = []
    if len(complete) < len(runs):
        lost.append(f"{len(runs) - len(complete)} of {len(runs)} runs, because not every requested "
                    "token came with text")
    if len(complete) < MIN_RUNS:
        return [], lost or [f"{len(runs)} runs, and {MIN_RUNS} are needed"]
    timed = complete - {request.run for request in asked if not request.steady}
    if len(timed) < len(complete):
        lost.append(f"decode speeds: {len(complete) - len(timed)} of {len(runs)} runs, because an "
                    "answer arrived in too few pieces to be timed: ask for more tokens (--tg)")
    made = {metric: _series(metric, entry, asked, timed if metric in DECODING else complete)
            for metric in NAMES}
    return ([series for series in made.values() if isinstance(series, Series)],
            lost + [f"{metric}: {why}" for metric, why in made.items() if isinstance(why, str)])


def _complete_runs(asked: Sequence[Request], tokens: int) -> frozenset[int]:
    """Return the runs in which the answer to every request was seen completely."""
    broken = {request.run for request in asked if not request.complete(tokens)}
    return frozenset(request.run for request in asked) - broken


def _series(metric: Metric, entry: Entry, asked: Sequence[Request],
            complete: frozenset[int]) -> Series | str | None:
    """Return the series, or why there is none; None where the metric does not apply."""
    name = NAMES[metric][entry.concurrency > 1]
    if not name:
        return None
    given: Values | None = getattr(entry, name)
    values = given.values if given else ()
    owners = list(_owners(metric, asked, per_run=name not in PER_REQUEST))
    if len(values) != len(owners):
        return f"llama-benchy timed {len(values)} of {len(owners)} answers"
    if len(complete) < MIN_RUNS:
        return f"{len(complete)} runs are left, and {MIN_RUNS} are needed"
    by_run = itertools.groupby(zip(owners, values, strict=True), key=lambda pair: pair[0])
    samples = tuple(statistics.fmean(value for _, value in pairs) for run, pairs in by_run
                    if run in complete)
    try:
        return Series(metric=metric, point=entry.point, samples=samples)
    except ValidationError as error:
        return first_violation(error)[1]


def _owners(metric: Metric, asked: Sequence[Request], *, per_run: bool) -> Iterator[int]:
    """Yield the run that each value of llama-benchy belongs to: it skips what it cannot time."""
    counted = [request.run for request in asked
               if (request.timed if metric in DECODING else request.answered)]
    yield from dict.fromkeys(counted) if per_run else counted
