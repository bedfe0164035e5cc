"""llama-benchy's JSON into series: one sample a run, and in words whatever could not be used."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from builder.bench.events import Request
from builder.errors import VerdictError
from builder.record.bench import LEAST_RUNS, Cell, Metric, Series

# Metric -> llama-benchy's name where one request runs, and where several run side by side.
NAMES: Mapping[Metric, tuple[str, str]] = {
    "prefill": ("pp_throughput", "pp_throughput"),
    "decode": ("tg_throughput", "tg_req_throughput"),
    "aggregate": ("", "tg_throughput"),
    "ttft": ("e2e_ttft", "e2e_ttft"),
}
A_REQUEST = ("tg_req_throughput", "e2e_ttft")  # one value a request; the others one a run


class Values(BaseModel):
    """The samples of one metric, as llama-benchy writes them; its mean and spread follow."""

    model_config = ConfigDict(frozen=True)
    values: tuple[float, ...]


class Entry(BaseModel):
    """One cell of llama-benchy's JSON; a metric of which it has no sample is None."""

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
    def cell(self) -> Cell:
        """Return the cell of the grid."""
        return Cell(pp=self.prompt_size, tg=self.response_size, depth=self.context_size,
                    concurrency=self.concurrency)


class Report(BaseModel):
    """llama-benchy's whole JSON, as far as it is read."""

    model_config = ConfigDict(frozen=True)
    version: str
    model: str
    benchmarks: tuple[Entry, ...]


def parse(raw: Any, requests: Mapping[Cell, Sequence[Request]]
          ) -> tuple[tuple[Series, ...], tuple[str, ...]]:
    """Return the series and what is missing, in words; raises VerdictError for unusable JSON."""
    try:
        report = Report.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        raise VerdictError(f"llama-benchy's result is not as it should be: {first['msg']}",
                           where=".".join(map(str, first["loc"]))) from error
    series: list[Series] = []
    missing: list[str] = []
    for entry in report.benchmarks:
        if entry.is_context_prefill_phase:
            continue
        found, lost = _cell(entry, requests.get(entry.cell, ()))
        series += found
        missing += [f"{entry.cell.name}: {why}" for why in lost]
    return tuple(series), tuple(missing)


def _cell(entry: Entry, asked: Sequence[Request]) -> tuple[list[Series], list[str]]:
    """Return the series of one cell, and why one is missing or shorter."""
    runs = {request.run for request in asked}
    whole = _whole_runs(asked, entry.response_size)
    lost = []
    if len(whole) < len(runs):
        lost.append(f"{len(runs) - len(whole)} of {len(runs)} runs, since not every token that was "
                    "asked for came with text")
    if len(whole) < LEAST_RUNS:
        return [], lost or [f"{len(runs)} runs, and {LEAST_RUNS} are needed"]
    made = {metric: _series(metric, entry, asked, whole) for metric in NAMES}
    return ([one for one in made.values() if isinstance(one, Series)],
            lost + [f"{metric}: {why}" for metric, why in made.items() if isinstance(why, str)])


def _whole_runs(asked: Sequence[Request], tokens: int) -> frozenset[int]:
    """Return the runs in which every request's answer was seen whole."""
    broken = {request.run for request in asked if not request.whole(tokens)}
    return frozenset(request.run for request in asked) - broken


def _series(metric: Metric, entry: Entry, asked: Sequence[Request],
            whole: frozenset[int]) -> Series | str | None:
    """Return the series, or why there is none; None where the metric does not exist there."""
    name = NAMES[metric][entry.concurrency > 1]
    if not name:
        return None
    found: Values | None = getattr(entry, name)
    values = found.values if found else ()
    owners = list(_owners(metric, asked, one_a_run=name not in A_REQUEST))
    if len(values) != len(owners):
        return f"llama-benchy has {len(values)} samples, its events tell of {len(owners)}"
    by_run = itertools.groupby(zip(owners, values, strict=True), key=lambda pair: pair[0])
    samples = tuple(statistics.fmean(value for _, value in pairs) for run, pairs in by_run
                    if run in whole)
    try:
        return Series(metric=metric, cell=entry.cell, samples=samples)
    except ValidationError as error:
        return error.errors()[0]["msg"].removeprefix("Value error, ")


def _owners(metric: Metric, asked: Sequence[Request], *, one_a_run: bool) -> Iterator[int]:
    """Yield the run that each of llama-benchy's values belongs to: it skips what it cannot time."""
    counted = [request.run for request in asked
               if (request.timed if metric in ("decode", "aggregate") else request.answered)]
    yield from dict.fromkeys(counted) if one_a_run else counted
