"""One benchmark from server to record: boot or find it, measure the grid, compare, keep it all."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from builder import console
from builder.bench.benchy import LOCK, OPTIONS, TOOL, Target, measure, text_sha256
from builder.bench.client import BenchClient
from builder.bench.compare import MARGIN, compare, refuse_unlike
from builder.bench.grid import Grid, fitting
from builder.bench.results import parse
from builder.errors import VerdictError
from builder.fetch.tool import tool_python
from builder.recipes.models import Recipe
from builder.record.bench import Bench, Comparison, Conditions
from builder.record.check import Check, OnCheck, Status
from builder.record.gpu import Gpu, Where, place
from builder.record.host_facts import HostFacts
from builder.record.models import Record
from builder.record.writer import RecordWriter
from builder.smoke.models import KeptLog, Observations, Run
from builder.smoke.server import booted
from builder.smoke.watch import still_healthy

Keep = Callable[[Bench], None]


@dataclass(frozen=True)
class Wish:
    """What is asked for: the grid, where the tokenizer is, and the benchmark to compare with.

    ``text`` is what prompts are cut from instead of Sparkyard's own sentences.
    """

    grid: Grid
    tokenizer: str
    cache: Path
    text: str | None = None
    baseline: Bench | None = None
    baseline_name: str = ""


def bench_image(run: Run, writer: RecordWriter, wish: Wish) -> Record:
    """Serve the image's recipe, measure it and keep the result as it comes."""
    with closing(KeptLog(run.workspace.cache / writer.record.log)) as log:
        observed = Observations(log)

        def on_check(check: Check) -> None:
            console.info(f"  {check.status.value:5} {check.check}  {check.detail[:150]}")
            writer.add(check, phases=dict(observed.phases), gpus=observed.gpus,
                       where=place(observed.gpus, emulated=run.emulated))
            log.raise_if_full()

        with booted(run, observed, on_check) as (watch, client):
            if client:
                server = BenchClient(client.base, client.model)
                conditions = conditions_of(run, writer.record, text_sha256(wish.text))
                measure_and_judge(server, conditions, wish, on_check,
                                  lambda bench: writer.note(bench=bench))
                on_check(still_healthy(watch, client))
        return writer.finish()


def conditions_of(run: Run, record: Record, sha256: str) -> Conditions:
    """Return the conditions of a server that Sparkyard has started."""
    return Conditions(
        where=record.where, hardware=hardware(record.where, record.gpus, record.host),
        model=run.recipe.model.name, revision=record.model.revision if record.model else "",
        serve=run.recipe.serve, environment=run.recipe.environment, tool=TOOL, options=OPTIONS,
        text_sha256=sha256)


def conditions_unseen(recipe: Recipe, said: str, sha256: str) -> Conditions:
    """Return the conditions of a server that was found running: what it runs on is hearsay."""
    return Conditions(where="unseen", hardware=f'said to be "{said}"' if said else "not said",
                      model=recipe.model.name, revision="", serve=None, tool=TOOL,
                      options=OPTIONS, text_sha256=sha256)


def hardware(where: Where, gpus: tuple[Gpu, ...], host: HostFacts) -> str:
    """Return the hardware in words: the GPUs, or the processor and how many cores of it."""
    if gpus:
        return ", ".join(gpu.name for gpu in gpus)
    processor = f"{host.cpus} x {host.cpu or host.machine}"
    return f"emulated by {processor}" if where == "emulated" else processor


def measure_and_judge(server: BenchClient, conditions: Conditions, wish: Wish, on_check: OnCheck,
                      keep: Keep) -> None:
    """Measure the grid and compare it; ``keep`` is handed the benchmark before it is judged.

    Raises UsageError, before anything is measured, where the baseline is of other conditions.
    """
    if wish.baseline:
        refuse_unlike(wish.baseline.conditions, conditions)
    grid, left_out = fitting(wish.grid, server.context())
    for line in left_out:
        console.warn(f"left out: {line}")
    bench = _measured(server, conditions, wish, grid, left_out, on_check)
    if bench is None:
        return
    keep(bench)
    if wish.baseline and bench.series:
        comparison = compare(wish.baseline, bench, wish.baseline_name)
        keep(bench.model_copy(update={"comparison": comparison}))
        on_check(verdict(comparison))


def _measured(server: BenchClient, conditions: Conditions, wish: Wish, grid: Grid,
              left_out: tuple[str, ...], on_check: OnCheck) -> Bench | None:
    """Run llama-benchy; None where it did not reach its end, which is a failed check."""
    started = time.monotonic()
    python = tool_python(LOCK, wish.cache)
    try:
        measured = measure(python, Target(server.base, server.model, wish.tokenizer), grid,
                           wish.text)
        series, missing = parse(measured.raw, measured.requests)
    except VerdictError as error:
        # A record names no address.
        detail = str(error).replace(server.base, "the server")
        on_check(Check(check="llama-benchy", status=Status.FAIL, detail=detail,
                       seconds=time.monotonic() - started))
        return None
    seconds = time.monotonic() - started
    cells = len({each.cell for each in series})
    on_check(Check(check="llama-benchy", status=Status.PASS if series else Status.FAIL,
                   detail=f"{cells} of {grid.cells} cells measured, {grid.runs} runs each",
                   seconds=seconds))
    return Bench(conditions=conditions, vllm=server.version(), seconds=round(seconds, 3),
                 left_out=(*left_out, *missing), series=series, llama_benchy=measured.raw)


def verdict(comparison: Comparison) -> Check:
    """Return the comparison as a check: it fails on a regression and says its size."""
    slow = comparison.regressions
    baseline = f"{comparison.baseline} (vLLM {comparison.baseline_vllm})"
    detail = ("; ".join(map(str, slow)) if slow else
              f"none of {len(comparison.findings)} questions finds it more than "
              f"{100 * MARGIN:.0f} % slower")
    return Check(check="no slower than the baseline", detail=f"{detail}; baseline: {baseline}",
                 status=Status.FAIL if slow else Status.PASS)
