"""The result of a benchmark: where it was measured, and one series of samples per point and metric.

Every throughput is in tokens per second. One sample is one run of a point of the grid: values that
llama-benchy has for single requests are averaged over the requests of that run, because requests
that run side by side are not independent of each other.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from builder.model import Frozen
from builder.record.gpu import Gpu, Where
from builder.record.host_facts import HostFacts

Metric = Literal["prefill", "decode", "aggregate", "ttft"]
UNITS: Mapping[Metric, str] = {
    "prefill": "tok/s", "decode": "tok/s", "aggregate": "tok/s", "ttft": "ms"}
PLACES: Mapping[Where, str] = {
    "gb10": "on a GB10", "gpu": "on a GPU that is not a GB10", "cpu": "on a CPU",
    "emulated": "on an emulated CPU", "unseen": "on hardware that Sparkyard has not seen"}
MIN_RUNS = 2  # one run alone has no spread, so that no difference could be judged


def _sample(value: float) -> float:
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{value} is not a throughput: it must be finite and above 0")
    return value


Sample = Annotated[float, AfterValidator(_sample)]


class GridPoint(Frozen):
    """One point of the grid: prompt, answer and context in tokens, and concurrent requests."""

    pp: Annotated[int, Field(ge=1)]
    tg: Annotated[int, Field(ge=1)]
    depth: Annotated[int, Field(ge=0)] = 0
    concurrency: Annotated[int, Field(ge=1)] = 1

    @property
    def name(self) -> str:
        """Return the point as llama-benchy's tables name it."""
        depth = f" @ d{self.depth}" if self.depth else ""
        return f"pp{self.pp} tg{self.tg}{depth} (c{self.concurrency})"


class Series(Frozen):
    """The samples of one metric at one point of the grid.

    ``prefill`` is prompt tokens per second of all requests together, ``decode`` answer tokens per
    second of one request, ``aggregate`` of all together (only where more than one runs), ``ttft``
    milliseconds to the first token.
    """

    metric: Metric
    point: GridPoint
    samples: Annotated[tuple[Sample, ...], Field(min_length=MIN_RUNS)]

    @property
    def mean(self) -> float:
        """Return the arithmetic mean."""
        return statistics.fmean(self.samples)

    @property
    def spread(self) -> float:
        """Return the standard deviation of the samples (n - 1) as a fraction of the mean."""
        return statistics.stdev(self.samples) / self.mean


class Conditions(Frozen):
    """What two benchmarks must have in common to be comparable: all but the software under test.

    ``where`` is ``unseen`` for a server that Sparkyard did not start; ``hardware`` is then the
    user's statement. ``serve`` holds the server's flags, None where they are unknown.
    ``text_sha256`` is that of the text which prompts are cut from.
    """

    where: Where
    hardware: str
    model: str
    revision: str
    serve: tuple[str, ...] | None
    environment: Mapping[str, str] = {}
    tool: str
    options: tuple[str, ...]
    text_sha256: str

    @property
    def place(self) -> str:
        """Return where it was measured, in words that stand beside every figure."""
        return f"{PLACES[self.where]} ({self.hardware})"


class Change(Frozen):
    """One tested difference: the change as a fraction, its 95 % interval, and the p-value.

    ``what`` names the point or the group of ``points`` it is about. ``change`` is -0.08 for 8 %
    slower. ``p`` is corrected for the number of tests; ``regression`` is the verdict of
    ``builder.bench.compare``.
    """

    metric: Metric
    what: str
    points: int
    change: float
    low: float
    high: float
    p: float
    regression: bool

    def __str__(self) -> str:
        """Return the size with its interval: ``decode c1: -8.1 % (95 %: -9.4 to -6.8 %)``."""
        return (f"{self.metric} {self.what}: {100 * self.change:+.1f} % "
                f"(95 %: {100 * self.low:+.1f} to {100 * self.high:+.1f} %)")


class Comparison(Frozen):
    """A benchmark beside its baseline; ``unmatched`` names series that only one of them has."""

    baseline: str
    baseline_vllm: str
    changes: tuple[Change, ...]
    unmatched: tuple[str, ...] = ()

    @property
    def regressions(self) -> tuple[Change, ...]:
        """Return the regressions, groups first; a single point only where no group covers it."""
        slow = [change for change in self.changes if change.regression]
        groups = [change for change in slow if change.points > 1]
        covered = {change.metric for change in groups}
        return (*groups, *(change for change in slow
                           if change.points == 1 and change.metric not in covered))


class Bench(Frozen):
    """One benchmark: its conditions, what was tested, its series, and llama-benchy's own JSON.

    ``left_out`` says which points of the grid were not measured or are incomplete, and why.
    """

    conditions: Conditions
    vllm: str
    seconds: float
    left_out: tuple[str, ...] = ()
    series: tuple[Series, ...]
    comparison: Comparison | None = None
    llama_benchy: Mapping[str, Any]


def describe_hardware(where: Where, gpus: Sequence[Gpu], host: HostFacts) -> str:
    """Return the hardware in words: the GPUs, or the processor and its number of cores."""
    if gpus:
        return ", ".join(gpu.name for gpu in gpus)
    processor = f"{host.cpus} x {host.cpu or host.machine}"
    return f"emulated by {processor}" if where == "emulated" else processor
