"""A benchmark from a server to checks: fake server, made-up samples, and the verdict they give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from builder.bench import run as bench_run
from builder.bench.benchy import Measured
from builder.bench.client import BenchClient
from builder.bench.events import requests
from builder.bench.grid import Grid
from builder.bench.run import (
    BenchRequest,
    conditions_unseen,
    measure_and_judge,
)
from builder.errors import EngineError, UsageError, VerdictError
from builder.recipes.load import load_recipe
from builder.record.bench import Bench
from builder.record.check import Check, Status
from builder.record.gpu import Gpu
from builder.record.host_facts import HostFacts
from builder.report.bench import comparison_lines
from tests.unit.bench_results import CONDITIONS, a_bench, a_series, entry, events, report

ROOT = Path(__file__).parents[3]
HOST = HostFacts(kernel="6", machine="x86_64", system="Debian", cpu="A Processor", cpus=2,
                 memory=1, engine="Docker 26")
GB10 = Gpu(name="NVIDIA GB10", compute_capability="12.1", driver="580")
ANSWERS: dict[str, Any] = {
    "/v1/models": {"data": [{"id": "tiny-gemma4", "max_model_len": 2048}]},
    "/version": {"version": "0.32.0"}}


@contextmanager
def serving(answers: dict[str, Any]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answers.get(self.path, {})).encode()
            self.send_response(200 if self.path in answers else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def measured(decode: list[float]) -> Measured:
    values: dict[str, list[float] | None] = {
        "pp_throughput": [100.0] * len(decode), "tg_throughput": decode,
        "e2e_ttft": [1.0] * len(decode)}
    runs = [[32]] * len(decode)
    return Measured(report(entry(values)), requests(events(runs)))


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # type: ignore[no-untyped-def]
    """Measure a fake server whose decode samples are given; return the checks and what is kept."""
    def judge(result: Measured | Exception, baseline: Bench | None = None
              ) -> tuple[list[Check], list[Bench]]:
        def stand_in(*_: object) -> Measured:
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(bench_run, "measure", stand_in)
        monkeypatch.setattr(bench_run, "tool_python", lambda *_: Path("python"))
        checks: list[Check] = []
        kept: list[Bench] = []
        wish = BenchRequest(Grid(pp=(128,), tg=(32,), concurrency=(1,)), "tok", tmp_path, None,
                            baseline, "20260101-bench")
        with serving(ANSWERS) as url:
            measure_and_judge(BenchClient(url, "tiny-gemma4"), CONDITIONS, wish, checks.append,
                              kept.append)
        return checks, kept
    return judge


def test_without_a_baseline_it_only_measures(judged) -> None:  # type: ignore[no-untyped-def]
    checks, kept = judged(measured([7.0, 7.01, 6.99]))
    assert [(check.check, check.status) for check in checks] == [("llama-benchy", Status.PASS)]
    assert checks[0].detail == "1 of 1 points measured, 3 runs each"
    assert kept[-1].vllm == "0.32.0"
    assert kept[-1].llama_benchy["model"] == "m"
    assert kept[-1].comparison is None


def test_a_slower_server_fails_and_the_check_says_by_how_much(judged) -> None:  # type: ignore[no-untyped-def]
    baseline = judged(measured([7.0, 7.01, 6.99]))[1][-1]
    checks, kept = judged(measured([6.4, 6.41, 6.39]), baseline)
    assert checks[-1].status is Status.FAIL
    assert checks[-1].detail.startswith("decode pp128 tg32 (c1): -8.6 % (95 %: -")
    assert checks[-1].detail.endswith("baseline: 20260101-bench (vLLM 0.32.0)")
    assert [finding.metric for finding in kept[-1].comparison.regressions] == ["decode"]
    assert "  SLOWER decode pp128 tg32 (c1): -8.6 %" in "\n".join(comparison_lines(kept[-1]))


def test_the_same_speed_passes(judged) -> None:  # type: ignore[no-untyped-def]
    baseline = judged(measured([7.0, 7.01, 6.99]))[1][-1]
    checks, _ = judged(measured([6.93, 6.94, 6.92]), baseline)
    assert checks[-1].status is Status.PASS
    assert "shows it more than 3 % slower" in checks[-1].detail


def test_an_unlike_baseline_is_refused_before_anything_is_measured(judged) -> None:  # type: ignore[no-untyped-def]
    baseline = a_bench([a_series(7.0, 7.1)], where="gb10", hardware="NVIDIA GB10")
    with pytest.raises(UsageError, match="other conditions"):
        judged(AssertionError("it was measured"), baseline)


def test_a_benchmark_that_breaks_off_is_a_failed_check(judged) -> None:  # type: ignore[no-untyped-def]
    checks, kept = judged(VerdictError("llama-benchy did not reach its end: HTTP 500"))
    assert [(check.status, check.detail) for check in checks] == [
        (Status.FAIL, "llama-benchy did not reach its end: HTTP 500")]
    assert kept == []


def test_nothing_usable_is_a_failed_check_and_is_kept(judged) -> None:  # type: ignore[no-untyped-def]
    checks, kept = judged(measured([7.0]), a_bench([a_series(7.0, 7.1)]))
    assert [check.status for check in checks] == [Status.FAIL]
    assert kept[-1].left_out == ("pp128 tg32 (c1): 1 runs, and 2 are needed",)


def test_of_a_server_that_was_found_only_the_users_word_is_known() -> None:
    recipe = load_recipe(ROOT, "tiny-gemma4")
    said = conditions_unseen(recipe, "a GB10, honestly", "ab")
    assert (said.where, said.serve) == ("unseen", None)
    assert said.place == 'on hardware that Sparkyard has not seen (stated as "a GB10, honestly")'
    assert conditions_unseen(recipe, "", "ab").hardware == "not stated"


def test_the_server_is_asked_what_it_serves() -> None:
    with serving(ANSWERS) as url:
        assert BenchClient(f"{url}/v1/", "tiny-gemma4").context() == 2048
        with pytest.raises(UsageError, match="does not serve other; its models: tiny-gemma4"):
            BenchClient(url, "other").context()
    with serving({}) as url:
        assert BenchClient(url, "x").version() == ""
        with pytest.raises(EngineError, match="does not say which models it serves"):
            BenchClient(url, "x").context()
    with pytest.raises(UsageError, match="not the address"):
        BenchClient("127.0.0.1:8000", "x")
