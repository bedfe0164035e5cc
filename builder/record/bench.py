"""The result of a benchmark: what was measured where, and one series of samples a cell and metric.

Every throughput is in tokens a second and one sample is one run of a cell: llama-benchy's values
of single requests are averaged over the requests that ran side by side, since those are not
independent of each other.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from builder.model import Frozen
from builder.record.gpu import Where

Metric = Literal["prefill", "decode", "aggregate", "ttft"]
UNITS: Mapping[Metric, str] = {
    "prefill": "tok/s", "decode": "tok/s", "aggregate": "tok/s", "ttft": "ms"}
PLACES: Mapping[Where, str] = {
    "gb10": "on a GB10", "gpu": "on a GPU that is no GB10", "cpu": "on a CPU",
    "emulated": "on an emulated CPU", "unseen": "on hardware that was not seen"}
LEAST_RUNS = 2  # of one run there is no spread, and nothing can be said about a difference


def _sample(value: float) -> float:
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{value} is no throughput: it must be finite and above 0")
    return value


Sample = Annotated[float, AfterValidator(_sample)]


class Cell(Frozen):
    """One cell of the grid: prompt, answer and context in tokens, requests side by side."""

    pp: Annotated[int, Field(ge=1)]
    tg: Annotated[int, Field(ge=1)]
    depth: Annotated[int, Field(ge=0)] = 0
    concurrency: Annotated[int, Field(ge=1)] = 1

    @property
    def name(self) -> str:
        """Return the cell as llama-benchy's tables name it."""
        depth = f" @ d{self.depth}" if self.depth else ""
        return f"pp{self.pp} tg{self.tg}{depth} (c{self.concurrency})"


class Series(Frozen):
    """The samples of one metric in one cell.

    ``prefill`` is prompt tokens a second of all requests together, ``decode`` answer tokens a
    second of one request, ``aggregate`` of all together (only where more than one runs), ``ttft``
    milliseconds to the first token.
    """

    metric: Metric
    cell: Cell
    samples: Annotated[tuple[Sample, ...], Field(min_length=LEAST_RUNS)]

    @property
    def mean(self) -> float:
        """Return the arithmetic mean."""
        return statistics.fmean(self.samples)

    @property
    def spread(self) -> float:
        """Return the standard deviation of the samples (n - 1) as a part of the mean."""
        return statistics.stdev(self.samples) / self.mean


class Conditions(Frozen):
    """What must be the same for two results to be comparable: everything but the software tested.

    ``where`` is ``unseen`` for a server that Sparkyard did not start; ``hardware`` is then the
    user's word. ``serve`` are the server's flags, None where they are not known. ``text_sha256``
    is of the text that prompts are cut from.
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


class Finding(Frozen):
    """One question of a comparison: the change as a fraction, its 95 % interval, the p-value.

    ``change`` is -0.08 for 8 % slower. ``p`` is corrected for the number of questions, and
    ``regression`` what ``builder.bench.compare`` makes of it.
    """

    metric: Metric
    what: str
    cells: int
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
    """A benchmark beside its baseline: what was compared and what could not be."""

    baseline: str
    baseline_vllm: str
    findings: tuple[Finding, ...]
    only_in_one: tuple[str, ...] = ()

    @property
    def regressions(self) -> tuple[Finding, ...]:
        """Return the regressions, groups first; a cell is named only where no group says it."""
        slow = [finding for finding in self.findings if finding.regression]
        groups = [finding for finding in slow if finding.cells > 1]
        said = {finding.metric for finding in groups}
        return (*groups, *(finding for finding in slow
                           if finding.cells == 1 and finding.metric not in said))


class Bench(Frozen):
    """One benchmark: its conditions, what was tested, its series, and llama-benchy's own JSON.

    ``left_out`` says which cells of the grid were not measured or not whole, and why.
    """

    conditions: Conditions
    vllm: str
    seconds: float
    left_out: tuple[str, ...] = ()
    series: tuple[Series, ...]
    comparison: Comparison | None = None
    llama_benchy: Mapping[str, Any]
