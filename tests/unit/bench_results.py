"""Benchmarks for tests: conditions, series, and llama-benchy's JSON and events made to order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from builder.record.bench import Bench, Conditions, GridPoint, Metric, Series

FIXTURES = Path(__file__).parents[1] / "fixtures" / "llama-benchy"
POINT = GridPoint(pp=128, tg=32)
CONDITIONS = Conditions(
    where="cpu", hardware="2 x A Processor", model="tiny-gemma4", revision="sha256:1",
    serve=("--enforce-eager",), environment={"A": "1"}, tool="llama-benchy==0.4.0",
    options=("--exact-tg",), text_sha256="ab")


def a_bench(series: Sequence[Series], vllm: str = "0.32.0", **conditions: Any) -> Bench:
    return Bench(conditions=CONDITIONS.model_copy(update=conditions), vllm=vllm, seconds=1.0,
                 series=tuple(series), llama_benchy={})


def a_series(*samples: float, metric: Metric = "decode", point: GridPoint = POINT) -> Series:
    return Series(metric=metric, point=point, samples=samples)


def entry(values: dict[str, list[float] | None], concurrency: int = 1) -> dict[str, Any]:
    """Return one point of llama-benchy's JSON, with as much of the rest as it is read for."""
    return {"concurrency": concurrency, "context_size": 0, "prompt_size": 128, "response_size": 32,
            "is_context_prefill_phase": False, "peak_throughput": None,
            "requests_throughput_over_time": None,
            **{name: None if samples is None else {"mean": 0, "std": 0, "values": samples}
               for name, samples in values.items()}}


def report(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"version": "0.4.0", "timestamp": "", "latency_mode": "none", "latency_ms": 0.0,
            "model": "m", "prefix_caching_enabled": False, "max_concurrency": 2,
            "benchmarks": list(entries)}


def events(runs: Sequence[Sequence[int]], concurrency: int = 1) -> Iterator[str]:
    """Yield the events of some runs; each number is the tokens seen of one request's answer."""
    yield json.dumps({"type": "header", "schema": "llama-benchy-progress.v1"})
    number = 0
    for run, answers in enumerate(runs, 1):
        for tokens in answers:
            yield json.dumps({
                "type": "request_start", "request_id": number, "prompt_size": 128,
                "response_size": 32, "context_size": 0, "concurrency": concurrency,
                "run_index": run})
            for _ in range(tokens):
                yield json.dumps({"type": "tokens", "request_id": number, "count": 1})
            yield json.dumps({"type": "request_end", "request_id": number, "total_tokens": tokens,
                              "error": ""})
            number += 1
