"""Regressions found and not imagined: with the published noise of one GB10, and by hand."""

from __future__ import annotations

import random

import pytest

from benchmarks.published import REPORTED, TABLE, draw
from builder.bench.compare import DRIFT, compare, holm, judge
from builder.errors import UsageError
from builder.record.bench import Change, GridPoint, Metric, Series
from tests.unit.bench_results import a_bench, a_series

SEEDS = range(6)


def findings(seed: int, slow: dict[Metric, float], *, heavy: bool = False,
             concurrency: tuple[int, ...] = (1, 2, 4)) -> tuple[Change, ...]:
    """Compare two benchmarks of a server that became slower by ``slow``, as they might be seen."""
    dice = random.Random(seed)
    old, new = (draw(dice, factors=factors, drift=DRIFT, heavy=heavy, concurrency=concurrency)
                for factors in (None, slow))
    return judge(list(zip(old, new, strict=True)))


def flagged(found: tuple[Change, ...]) -> set[Metric]:
    return {finding.metric for finding in found if finding.regression}


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_decoding_8_percent_slower_is_flagged_with_its_size(seed: int, heavy: bool) -> None:
    found = findings(seed, {"decode": 0.92}, heavy=heavy)
    assert "decode" in flagged(found)
    assert "prefill" not in flagged(found)
    alone = next(finding for finding in found if finding.what.startswith("c1,"))
    assert alone.regression
    assert alone.points == 6
    assert alone.low < alone.change < alone.high < -0.03
    assert alone.change == pytest.approx(-0.08, abs=0.025)


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("factor", [1.0, 0.99])
@pytest.mark.parametrize("seed", SEEDS)
def test_1_percent_or_nothing_is_not(seed: int, factor: float, heavy: bool) -> None:
    assert flagged(findings(seed, {"decode": factor}, heavy=heavy)) == set()


@pytest.mark.parametrize(("link", "metric", "factor"), REPORTED)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_users_reported_would_have_been_caught(seed: int, link: str, metric: Metric,
                                                    factor: float) -> None:
    assert metric in flagged(findings(seed, {metric: factor})), link


@pytest.mark.parametrize("seed", SEEDS)
def test_a_regression_that_only_batches_have_is_found_without_c1(seed: int) -> None:
    assert flagged(findings(seed, {"decode": 0.92}, concurrency=(2, 4))) & {"decode", "aggregate"}


def test_faster_is_no_regression() -> None:
    assert flagged(findings(1, {"decode": 1.2, "prefill": 1.2})) == set()


def test_the_published_noise_is_what_the_series_have() -> None:
    dice = random.Random(3)
    drawn = [one for one in draw(dice, runs=4000) if one.point == GridPoint(pp=128, tg=32)]
    assert [one.metric for one in drawn] == ["prefill", "decode"]
    row = TABLE[128, 32, 1]
    assert drawn[0].spread == pytest.approx(1.5 ** 0.5 * row[1] / row[0], rel=0.1)
    assert drawn[1].spread < 0.003


def test_the_aggregate_slows_with_the_decoding() -> None:
    old, new = (draw(random.Random(2), factors=factors) for factors in ({}, {"decode": 0.5}))
    by_half = {a.metric: b.mean / a.mean for a, b in zip(old, new, strict=True)}
    assert by_half["aggregate"] == pytest.approx(0.5)
    assert by_half["prefill"] == pytest.approx(1.0)


def test_two_samples_that_agree_are_not_trusted_beyond_the_drift() -> None:
    """Equal to the last digit: the drift between two boots is left as the error."""
    found = judge([(a_series(100.0, 100.0), a_series(96.0, 96.0))])
    assert len(found) == 1
    assert not found[0].regression
    assert found[0].low < -0.05 < found[0].high
    assert judge([(a_series(100.0, 100.0), a_series(92.0, 92.0))])[0].regression


def test_many_samples_that_scatter_still_find_a_large_change() -> None:
    dice = random.Random(4)
    old, new = (a_series(*(mean * dice.lognormvariate(0, 0.16) for _ in range(40)))
                for mean in (100.0, 70.0))
    assert judge([(old, new)])[0].regression
    short = judge([(a_series(*old.samples[:3]), a_series(*new.samples[:3]))])
    assert not short[0].regression


def test_holm_multiplies_by_what_is_left_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_a_group_is_named_once_and_a_cell_only_where_no_group_says_it() -> None:
    other = GridPoint(pp=512, tg=32)
    old = [a_series(100.0, 100.1, 99.9), a_series(100.0, 100.1, 99.9, point=other),
           a_series(50.0, 50.1, metric="prefill"), a_series(500.0, 501.0, metric="ttft")]
    new = [a_series(80.0, 80.1, 79.9), a_series(80.0, 80.1, 79.9, point=other),
           a_series(40.0, 40.1, metric="prefill"), a_series(900.0, 901.0, metric="ttft")]
    result = compare(a_bench(old), a_bench(new, vllm="0.33.0"), "20260101-bench")
    said = [str(finding) for finding in result.regressions]
    assert said[0].startswith("decode c1, all points: -20.0 % (95 %: -2")
    assert said[1].startswith("prefill pp128 tg32 (c1): -")
    assert len(said) == 2
    assert (result.baseline, result.baseline_vllm) == ("20260101-bench", "0.32.0")


@pytest.mark.parametrize(("field", "value", "said"), [
    ("where", "gb10", "where: gb10 (baseline), cpu (now)"),
    ("hardware", "NVIDIA GB10", "hardware: NVIDIA GB10 (baseline), 2 x A Processor (now)"),
    ("model", "google/gemma-4", "model: google/gemma-4 (baseline), tiny-gemma4 (now)"),
    ("revision", "sha256:2", "revision: sha256:2 (baseline), sha256:1 (now)"),
    ("serve", ("--max-num-seqs", "4"), "serve: ('--max-num-seqs', '4') (baseline)"),
    ("serve", None, "serve: None (baseline)"),
    ("environment", {"A": "2"}, "environment: {'A': '2'} (baseline), {'A': '1'} (now)"),
    ("tool", "llama-benchy==0.3.5", "tool: llama-benchy==0.3.5 (baseline)"),
    ("text_sha256", "cd", "text_sha256: cd (baseline), ab (now)"),
])
def test_what_was_measured_otherwise_is_refused_by_name(field: str, value: object,
                                                        said: str) -> None:
    series = [a_series(1.0, 1.1)]
    with pytest.raises(UsageError) as caught:
        compare(a_bench(series, **{field: value}), a_bench(series))
    assert said in str(caught.value)
    assert "other conditions" in caught.value.what
    assert caught.value.exit_code == 2


def test_another_vllm_is_what_a_comparison_is_for() -> None:
    series = [a_series(1.0, 1.1)]
    result = compare(a_bench(series, vllm="0.31.0"), a_bench(series, vllm="0.32.0"))
    assert result.regressions == ()


def test_cells_of_one_side_only_are_named_and_none_in_common_is_an_error() -> None:
    other: Series = a_series(1.0, 1.1, point=GridPoint(pp=512, tg=32, concurrency=2))
    shared = a_series(1.0, 1.1)
    result = compare(a_bench([shared, other]), a_bench([shared]))
    assert result.unmatched == ("decode pp512 tg32 (c2)",)
    with pytest.raises(UsageError, match="no point of the grid in common"):
        compare(a_bench([other]), a_bench([shared]))
