"""The figures of a benchmark: series, the place of measure, and the comparison."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from builder.record.bench import (
    Change,
    Comparison,
    Conditions,
    GridPoint,
    describe_hardware,
)
from tests.unit.bench.test_run import GB10, HOST
from tests.unit.bench_results import CONDITIONS, a_series


def test_a_cell_is_named_as_the_tables_do() -> None:
    assert GridPoint(pp=128, tg=32, concurrency=4).name == "pp128 tg32 (c4)"
    assert GridPoint(pp=2048, tg=128, depth=4096).name == "pp2048 tg128 @ d4096 (c1)"


def test_mean_and_spread_of_a_series() -> None:
    series = a_series(9.0, 10.0, 11.0)
    assert (series.mean, series.spread) == (10.0, 0.1)


@pytest.mark.parametrize("samples", [(), (1.0,), (1.0, 0.0), (1.0, float("nan")), (-1.0, 1.0)])
def test_what_is_no_series_is_refused(samples: tuple[float, ...]) -> None:
    with pytest.raises(ValidationError):
        a_series(*samples)


@pytest.mark.parametrize(("where", "said"), [
    ("gb10", "on a GB10 (x)"), ("cpu", "on a CPU (x)"), ("emulated", "on an emulated CPU (x)"),
    ("gpu", "on a GPU that is not a GB10 (x)"),
    ("unseen", "on hardware that Sparkyard has not seen (x)")])
def test_every_figure_says_where_it_is_from(where: str, said: str) -> None:
    document = {**CONDITIONS.model_dump(), "where": where, "hardware": "x"}
    assert Conditions.model_validate(document).place == said


def test_the_hardware_is_the_gpu_or_the_processor() -> None:
    assert describe_hardware("gb10", (GB10,), HOST) == "NVIDIA GB10"
    assert describe_hardware("cpu", (), HOST) == "2 x A Processor"
    assert describe_hardware("emulated", (), HOST) == "emulated by 2 x A Processor"


def a_change(what: str, points: int, *, regression: bool) -> Change:
    return Change(metric="decode", what=what, points=points, change=-0.081, low=-0.094, high=-0.068,
                  p=0.001, regression=regression)


def test_a_change_says_its_size_with_the_interval() -> None:
    assert str(a_change("c1", 2, regression=True)) == (
        "decode c1: -8.1 % (95 %: -9.4 to -6.8 %)")


def test_a_point_is_a_regression_only_where_no_group_covers_it() -> None:
    group, point = a_change("c1", 2, regression=True), a_change("pp1", 1, regression=True)
    both = Comparison(baseline="b", baseline_vllm="", changes=(point, group))
    assert both.regressions == (group,)
    alone = Comparison(baseline="b", baseline_vllm="", changes=(
        point, a_change("c1", 2, regression=False)))
    assert alone.regressions == (point,)
