"""llama-benchy's events: which requests there were, and whether every token was seen."""

from __future__ import annotations

from typing import Any

import pytest

from builder.bench.events import Request, requests, take_arrivals
from tests.unit.bench_results import POINT, entry, events, report


def test_events_are_grouped_by_cell_in_the_order_of_the_requests() -> None:
    found = requests(events([[32, 5], [1, 0]], concurrency=2))
    assert found == {POINT.model_copy(update={"concurrency": 2}): (
        Request(1, 32, 32, 32, 31), Request(1, 5, 5, 5, 4), Request(2, 1, 1, 1, 0),
        Request(2, 0, 0, 0, 0))}
    assert [request.timed for request in next(iter(found.values()))] == [True, True, False, False]


@pytest.mark.parametrize(("tokens", "asked", "whole"), [
    (32, 32, True), (31, 32, True), (30, 32, False), (128, 128, True), (125, 128, True),
    (124, 128, False), (1, 2, False)])
def test_one_token_or_3_percent_may_be_hidden(tokens: int, asked: int, whole: bool) -> None:
    assert Request(1, tokens, tokens, tokens, tokens - 1).complete(asked) is whole


def arrived(*answers: list[float]) -> dict[str, Any]:
    """Return llama-benchy's JSON of runs with one request each, whose tokens came then."""
    rates = [[[[at, 1.0] for at in answer]] for answer in answers]
    return report({**entry({}), "requests_throughput_over_time": rates})


def test_tokens_that_one_read_brought_are_one_moment() -> None:
    at = [0.0, *[0.2] * 16, *[number / 10 for number in range(3, 18)]]
    arrivals = take_arrivals(arrived(at, [0.0] * 32))
    first, second = requests(events([[32], [32]]), arrivals)[POINT]
    assert (first.chunks, first.moments, first.later) == (32, 17, 31)
    assert (second.chunks, second.moments, second.later) == (32, 1, 0)
    assert (first.timed, first.steady) == (True, True)
    assert (second.timed, second.steady, second.answered) == (False, False, True)
    assert second.complete(32)


def test_when_tokens_arrived_is_taken_out_of_what_is_kept() -> None:
    raw = arrived([0.0, 1.0])
    assert take_arrivals(raw) == {POINT: [[0.0, 1.0]]}
    assert raw["benchmarks"][0]["requests_throughput_over_time"] is None
    assert take_arrivals(raw) == {POINT: []}
    loading = arrived([0.0])
    loading["benchmarks"][0]["is_context_prefill_phase"] = True
    assert take_arrivals(loading) == {}


def test_times_of_another_number_of_requests_are_not_believed() -> None:
    found = requests(events([[32], [32]]), take_arrivals(arrived([0.0] * 32)))[POINT]
    assert [each.moments for each in found] == [32, 32]


@pytest.mark.parametrize(("request_", "steady"), [
    (Request(1, 128, 128, 128, 127), True), (Request(1, 128, 13, 128, 118), True),
    (Request(1, 128, 128, 4, 64), True), (Request(1, 2, 2, 2, 1), True),
    (Request(1, 128, 128, 2, 127), False), (Request(1, 128, 2, 29, 127), False),
    (Request(1, 128, 128, 40, 39), False), (Request(1, 128, 128, 1, 0), False)])
def test_an_answer_in_a_few_pieces_or_mostly_in_the_first_has_no_speed(
        request_: Request, steady: bool) -> None:
    assert request_.steady is steady
