"""One benchmark from server to record: boot or reach it, measure the grid, compare, keep it all."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from builder import console
from builder.bench.benchy import LOCK, OPTIONS, TOOL, Target, measure, text_sha256
from builder.bench.client import BenchClient
from builder.bench.compare import MARGIN, compare, refuse_other_conditions
from builder.bench.grid import Grid, fitting
from builder.bench.results import parse
from builder.errors import VerdictError
from builder.fetch.tool import tool_python
from builder.recipes.models import Recipe
from builder.record.bench import Bench, Comparison, Conditions, describe_hardware
from builder.record.check import Check, OnCheck, Status
from builder.record.models import Record
from builder.record.writer import RecordWriter
from builder.smoke.models import KeptLog, Observations, Run
from builder.smoke.server import booted
from builder.smoke.watch import still_healthy
from builder.text import one_line, redact

OnBench = Callable[[Bench], None]  # is given the benchmark as soon as there is one


@dataclass(frozen=True)
class BenchRequest:
    """What to measure: the grid, the tokenizer, and the benchmark to compare with.

    ``text`` is what prompts are cut from instead of Sparkyard's own sentences.
    """

    grid: Grid
    tokenizer: str
    cache: Path
    text: str | None = None
    baseline: Bench | None = None
    baseline_name: str = ""


def bench_image(run: Run, writer: RecordWriter, request: BenchRequest) -> Record:
    """Serve the image's recipe, measure it and keep the result as it comes."""
    with closing(KeptLog(run.workspace.cache / writer.record.log)) as log:
        observed = Observations(log)

        def on_check(check: Check) -> None:
            console.info(f"  {check.status.value:5} {check.check}  {one_line(check.detail, 150)}")
            writer.add(check, phases=dict(observed.phases), gpus=observed.gpus)
            log.raise_if_full()

        with booted(run, observed, on_check) as (watch, client):
            if client:
                server = BenchClient(client.base, client.model, client.patience)
                conditions = conditions_of(run, writer.record, text_sha256(request.text))
                measure_and_judge(server, conditions, request, on_check,
                                  lambda bench: writer.update(bench=bench))
                on_check(still_healthy(watch, client))
        return writer.finish()


def conditions_of(run: Run, record: Record, sha256: str) -> Conditions:
    """Return the conditions of a server that Sparkyard has started."""
    return Conditions(
        where=record.where, hardware=describe_hardware(record.where, record.gpus, record.host),
        model=run.recipe.model.name, revision=record.model.revision if record.model else "",
        serve=run.recipe.serve, environment=run.recipe.environment, tool=TOOL, options=OPTIONS,
        text_sha256=sha256)


def conditions_unseen(recipe: Recipe, stated: str, sha256: str) -> Conditions:
    """Return the conditions of a server that was already running: its hardware is a statement."""
    return Conditions(where="unseen", hardware=f'stated as "{stated}"' if stated else "not stated",
                      model=recipe.model.name, revision="", serve=None, tool=TOOL,
                      options=OPTIONS, text_sha256=sha256)


def measure_and_judge(server: BenchClient, conditions: Conditions, request: BenchRequest,
                      on_check: OnCheck, on_bench: OnBench) -> None:
    """Measure the grid and compare it; ``on_bench`` is given the benchmark before it is judged.

    Raises UsageError, before anything is measured, where the baseline has other conditions.
    """
    if request.baseline:
        refuse_other_conditions(request.baseline.conditions, conditions)
    grid, left_out = fitting(request.grid, server.context())
    for line in left_out:
        console.warn(f"left out: {line}")
    bench = _measured(server, conditions, request, grid, left_out, on_check)
    if bench is None:
        return
    on_bench(bench)
    if request.baseline and bench.series:
        comparison = compare(request.baseline, bench, request.baseline_name)
        on_bench(bench.model_copy(update={"comparison": comparison}))
        on_check(verdict(comparison))


def _measured(server: BenchClient, conditions: Conditions, request: BenchRequest,
              grid: Grid, left_out: tuple[str, ...], on_check: OnCheck) -> Bench | None:
    """Run llama-benchy; None where it failed, which is a failed check."""
    started = time.monotonic()
    python = tool_python(LOCK, request.cache)
    try:
        measured = measure(python, Target(
            server.base, server.model, request.tokenizer, server.patience), grid, request.text)
        series, missing = parse(measured.raw, measured.requests)
    except VerdictError as error:
        detail = redact(str(error).replace(server.base, "the server"))  # records hold no address
        on_check(Check(check="llama-benchy", status=Status.FAIL, detail=detail,
                       seconds=time.monotonic() - started))
        return None
    seconds = time.monotonic() - started
    points = len({each.point for each in series})
    on_check(Check(check="llama-benchy", status=Status.PASS if series else Status.FAIL,
                   detail=f"{points} of {grid.points} points measured, {grid.runs} runs each",
                   seconds=seconds))
    return Bench(conditions=conditions, vllm=server.version(), seconds=round(seconds, 3),
                 left_out=(*left_out, *missing), series=series, llama_benchy=measured.raw)


def verdict(comparison: Comparison) -> Check:
    """Return the comparison as a check: it fails on a regression and says its size."""
    slow = comparison.regressions
    baseline = f"{comparison.baseline} (vLLM {comparison.baseline_vllm})"
    detail = ("; ".join(map(str, slow)) if slow else
              f"none of {len(comparison.changes)} tests shows it more than "
              f"{100 * MARGIN:.0f} % slower")
    return Check(check="no slower than the baseline", detail=f"{detail}; baseline: {baseline}",
                 status=Status.FAIL if slow else Status.PASS)
