"""llama-benchy's own files into series: whole ones, broken ones and those that would mislead."""

from __future__ import annotations

import json
import math
import statistics
from typing import Any

import pytest

from builder.bench.events import requests, take_arrivals
from builder.bench.results import parse
from builder.errors import VerdictError
from builder.record.bench import GridPoint, Series
from tests.unit.bench_results import FIXTURES, entry, events, report


def read(name: str) -> tuple[tuple[Series, ...], tuple[str, ...]]:
    raw = json.loads((FIXTURES / f"{name}result.json").read_text(encoding="utf-8"))
    with (FIXTURES / f"{name}events.jsonl").open(encoding="utf-8") as lines:
        return parse(raw, requests(lines))


def made(values: dict[str, list[float] | None], runs: list[list[int]], concurrency: int = 1
         ) -> tuple[dict[str, tuple[float, ...]], tuple[str, ...]]:
    """Parse one cell and return its samples by metric, and what is missing."""
    series, missing = parse(report(entry(values, concurrency)),
                            requests(events(runs, concurrency)))
    return {each.metric: each.samples for each in series}, missing


def test_real_output_has_every_metric_of_every_cell() -> None:
    series, missing = read("")
    assert missing == ()
    one, two = GridPoint(pp=128, tg=16), GridPoint(pp=128, tg=16, concurrency=2)
    assert [(each.metric, each.point) for each in series] == [
        ("prefill", one), ("decode", one), ("ttft", one),
        ("prefill", two), ("decode", two), ("aggregate", two), ("ttft", two)]
    assert {len(each.samples) for each in series} == {3}
    raw = json.loads((FIXTURES / "result.json").read_text(encoding="utf-8"))["benchmarks"]
    by_key = {(each.metric, each.point): each for each in series}
    assert list(by_key["decode", one].samples) == raw[0]["tg_throughput"]["values"]
    assert list(by_key["aggregate", two].samples) == raw[1]["tg_throughput"]["values"]
    assert by_key["decode", two].mean == pytest.approx(raw[1]["tg_req_throughput"]["mean"])
    assert by_key["decode", two].samples[0] == pytest.approx(
        statistics.fmean(raw[1]["tg_req_throughput"]["values"][:2]))
    assert by_key["ttft", one].mean == pytest.approx(raw[0]["e2e_ttft"]["mean"])


def test_real_output_of_a_server_that_keeps_tokens_back_loses_those_runs_by_name() -> None:
    """llama-benchy itself gives four samples of five runs here and says nothing."""
    series, missing = read("hidden-")
    raw = json.loads((FIXTURES / "hidden-result.json").read_text(encoding="utf-8"))["benchmarks"][0]
    assert len(raw["tg_throughput"]["values"]) == 4
    with (FIXTURES / "hidden-events.jsonl").open(encoding="utf-8") as lines:
        asked = requests(lines)[GridPoint(pp=512, tg=32)]
    whole = [request.run for request in asked if request.complete(32)]
    assert 2 <= len(whole) < 5
    assert missing[0] == (f"pp512 tg32 (c1): {5 - len(whole)} of 5 runs, because not every "
                          "requested token came with text")
    assert {len(each.samples) for each in series} <= {len(whole)}


def test_samples_of_a_run_with_a_hidden_answer_are_left_out_and_the_others_kept() -> None:
    found, missing = made({"pp_throughput": [10, 11, 12, 13], "tg_throughput": [1, 0.3, 3, 4],
                           "e2e_ttft": [5, 6, 7, 8]}, [[32], [10], [31], [32]])
    assert found == {"prefill": (10, 12, 13), "decode": (1, 3, 4), "ttft": (5, 7, 8)}
    assert missing == (("pp128 tg32 (c1): 1 of 4 runs, because not every requested token "
                        "came with text"),)


def test_an_answer_without_any_text_has_no_sample_and_shifts_none() -> None:
    found, _ = made({"pp_throughput": [10, 12, 13], "tg_throughput": [1, 3, 4],
                     "e2e_ttft": [5, 7, 8]}, [[32], [0], [32], [32]])
    assert found["decode"] == (1, 3, 4)
    found, _ = made({"pp_throughput": [10, 11, 12], "tg_req_throughput": [1, 2, 3, 4, 5],
                     "tg_throughput": [2, 4, 6], "e2e_ttft": [1, 3, 5, 5, 7]},
                    [[32, 32], [32, 0], [32, 32]], concurrency=2)
    assert found == {"prefill": (10, 12), "decode": (1.5, 4.5), "aggregate": (2, 6),
                     "ttft": (2, 6)}


def test_counts_that_do_not_agree_are_no_samples() -> None:
    found, missing = made({"pp_throughput": [10, 11, 12], "tg_throughput": [1, 3],
                           "e2e_ttft": [5, 7, 8]}, [[32], [32], [32]])
    assert set(found) == {"prefill", "ttft"}
    assert missing == ("pp128 tg32 (c1): decode: llama-benchy timed 2 of 3 answers",)


STEADY, BURST, ONE_PIECE = [number / 10 for number in range(32)], [0.0] * 30 + [0.1] * 2, [0.0] * 32


def timed(answers: list[list[list[float]]], values: dict[str, list[float] | None],
          concurrency: int = 1) -> tuple[dict[str, tuple[float, ...]], tuple[str, ...]]:
    """Parse one cell whose tokens came at these times, run by run and request by request."""
    raw = report({**entry(values, concurrency), "requests_throughput_over_time": [
        [[[at, 1.0] for at in answer] for answer in run] for run in answers]})
    arrivals = take_arrivals(raw)
    seen = [[len(answer) for answer in run] for run in answers]
    series, missing = parse(raw, requests(events(seen, concurrency), arrivals))
    return {each.metric: each.samples for each in series}, missing


def test_a_run_whose_answer_came_in_few_pieces_loses_its_speed_and_no_other_run() -> None:
    """The client of a busy machine reads 128 tokens at once: 200,000 tok/s, or no speed at all."""
    found, missing = timed(
        [[STEADY], [ONE_PIECE], [BURST], [STEADY]],
        {"pp_throughput": [10, 11, 12, 13], "tg_throughput": [10, 20_000, 11],
         "e2e_ttft": [5, 6, 7, 8]})
    assert found == {"prefill": (10, 11, 12, 13), "decode": (10, 11), "ttft": (5, 6, 7, 8)}
    assert missing == (("pp128 tg32 (c1): decode speeds: 2 of 4 runs, because an answer arrived in "
                        "too few pieces to be timed: ask for more tokens (--tg)"),)


def test_one_such_answer_among_several_at_once_costs_that_run_alone() -> None:
    found, missing = timed(
        [[STEADY, STEADY], [STEADY, ONE_PIECE], [STEADY, STEADY]],
        {"pp_throughput": [1, 2, 3], "tg_req_throughput": [10, 12, 13, 14, 16],
         "tg_throughput": [20, 21, 22], "e2e_ttft": [1, 1, 2, 2, 3, 3]}, concurrency=2)
    assert found == {"prefill": (1, 2, 3), "decode": (11, 15), "aggregate": (20, 22),
                     "ttft": (1, 2, 3)}
    assert len(missing) == 1


def test_fewer_than_two_timed_runs_are_no_speed_and_the_rest_stays() -> None:
    found, missing = timed([[STEADY], [ONE_PIECE]], {
        "pp_throughput": [10, 11], "tg_throughput": [10], "e2e_ttft": [5, 6]})
    assert found == {"prefill": (10, 11), "ttft": (5, 6)}
    assert missing[1] == "pp128 tg32 (c1): decode: 1 runs are left, and 2 are needed"


@pytest.mark.parametrize(("runs", "said"), [
    ([[32]], "1 runs, and 2 are needed"),
    ([[3], [4], [32]], "2 of 3 runs, because not every requested token came with text"),
])
def test_a_cell_with_less_than_two_whole_runs_says_nothing(runs: list[list[int]], said: str
                                                           ) -> None:
    values = [float(number) for number in range(1, len(runs) + 1)]
    found, missing = made(dict.fromkeys(("pp_throughput", "tg_throughput", "e2e_ttft"), values),
                          runs)
    assert found == {}
    assert missing == (f"pp128 tg32 (c1): {said}",)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_sample_that_is_no_speed_is_refused_by_name(bad: float) -> None:
    found, missing = made({"pp_throughput": [10, 11, 12], "tg_throughput": [1, bad, 3],
                           "e2e_ttft": [5, 6, 7]}, [[32], [32], [32]])
    assert set(found) == {"prefill", "ttft"}
    assert missing == ((f"pp128 tg32 (c1): decode: {bad} is not a throughput: it must be finite "
                       "and above 0"),)


def test_a_metric_that_llama_benchy_has_nothing_of_is_missing() -> None:
    _, missing = made({"pp_throughput": None, "tg_throughput": [1, 2], "e2e_ttft": [1, 2]},
                      [[32], [32]])
    assert missing == ("pp128 tg32 (c1): prefill: llama-benchy timed 0 of 2 answers",)


def test_a_cell_without_events_says_nothing() -> None:
    series, missing = parse(report(entry({"tg_throughput": [1, 2]})), {})
    assert (series, missing) == ((), ("pp128 tg32 (c1): 0 runs, and 2 are needed",))


@pytest.mark.parametrize(("raw", "where"), [
    ({}, "version"), ([], ""), ("text", ""),
    ({"version": "1", "model": "m", "benchmarks": [{"concurrency": 1}]},
     "benchmarks.0.context_size"),
    (report(entry({"pp_throughput": ["fast"]})), "benchmarks.0.pp_throughput.values.0"),  # type: ignore[list-item]
])
def test_what_is_no_result_is_a_clear_error(raw: Any, where: str) -> None:
    with pytest.raises(VerdictError, match="cannot be used") as caught:
        parse(raw, {})
    assert caught.value.where == where


def test_a_phase_that_only_loads_the_context_is_no_cell() -> None:
    loading = {**entry({"tg_throughput": [1, 2]}), "is_context_prefill_phase": True}
    assert parse(report(loading), requests(events([[32], [32]]))) == ((), ())
