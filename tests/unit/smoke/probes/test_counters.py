"""The counters of a server: gauges that are no numbers, and waiting until nothing is wrong."""

from __future__ import annotations

from builder.smoke.client import Client
from builder.smoke.probes.counters import settled
from tests.unit.fake_openai import Fake
from tests.unit.smoke.probes.asking import served

__all__ = ["served"]  # the fixture


def test_a_gauge_that_is_no_number_is_not_in_the_record(served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.held = float("nan")
    found = client.metrics()
    assert 'vllm:kv_cache_usage_perc{engine="0"}' not in found
    assert 'vllm:prompt_tokens_total{engine="0"}' in found


def test_waiting_ends_when_nothing_is_wrong_any_more() -> None:
    answers = iter(["busy", "busy", ""])
    assert settled(lambda: next(answers), within=30) == ""


def test_what_is_still_wrong_at_the_end_is_told() -> None:
    assert settled(lambda: "busy", within=0) == "busy"
