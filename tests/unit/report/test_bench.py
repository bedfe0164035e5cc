"""A benchmark for its readers: where it was measured, the comparison, and the axes of plots."""

from __future__ import annotations

import pytest
from report_records import a_bench as a_measured_bench

from builder.bench.run import verdict
from builder.record.bench import Comparison
from builder.record.check import Status
from builder.report.bench import axis_end, comparison_lines, heading, plots
from tests.unit.bench_results import a_bench, a_series


@pytest.mark.parametrize("where", ["cpu", "emulated", "gpu", "unseen"])
def test_only_a_gb10_is_a_spark(where: str) -> None:
    bench = a_bench([a_series(1.0, 1.1)], where=where, hardware="this")
    assert "not figures of a DGX Spark" in heading("cpu", bench)
    assert "not figures" not in heading("tf5", a_bench([a_series(1.0, 1.1)], where="gb10"))


def test_a_comparison_lists_groups_and_what_one_side_lacks() -> None:
    comparison = Comparison(baseline="b", baseline_vllm="", changes=(), unmatched=("x",))
    bench = a_bench([a_series(1.0, 1.1)]).model_copy(update={"comparison": comparison})
    assert list(comparison_lines(bench)) == ["compared with b (vLLM of unknown version):",
                                     "  not compared, because only one of the two has it: x"]
    assert list(comparison_lines(a_bench([a_series(1.0, 1.1)]))) == []
    assert verdict(comparison).status is Status.PASS


@pytest.mark.parametrize(("largest", "end"), [(0.03, 0.03), (9.1, 10.0), (84.0, 100.0),
                                              (101.0, 120.0), (1400.0, 1500.0)])
def test_axes_end_at_round_values(largest: float, end: float) -> None:
    assert axis_end(largest) == pytest.approx(end)


def test_a_plot_has_a_row_for_each_point_and_every_sample_within_its_axis() -> None:
    drawn = list(plots(a_measured_bench()))
    assert [plot.unit for plot in drawn] == ["tok/s", "tok/s", "ms"]
    for plot in drawn:
        assert [row.name for row in plot.rows] == ["pp128 tg32 (c1)", "pp128 tg32 (c2)"]
        assert all(0 < sample <= 1 for row in plot.rows for sample in row.samples)
