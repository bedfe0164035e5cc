"""llama-benchy's events: which requests there were, and whether every token was seen."""

from __future__ import annotations

import pytest

from builder.bench.events import Request, requests
from tests.unit.bench_results import POINT, events


def test_events_are_grouped_by_cell_in_the_order_of_the_requests() -> None:
    found = requests(events([[32, 5], [1, 0]], concurrency=2))
    assert found == {POINT.model_copy(update={"concurrency": 2}): (
        Request(1, 32, 32), Request(1, 5, 5), Request(2, 1, 1), Request(2, 0, 0))}
    assert [request.timed for request in next(iter(found.values()))] == [True, True, False, False]


@pytest.mark.parametrize(("tokens", "asked", "whole"), [
    (32, 32, True), (31, 32, True), (30, 32, False), (128, 128, True), (125, 128, True),
    (124, 128, False), (1, 2, False)])
def test_one_token_or_3_percent_may_be_hidden(tokens: int, asked: int, whole: bool) -> None:
    assert Request(1, tokens, tokens).complete(asked) is whole
