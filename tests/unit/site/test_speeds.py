"""Decode speeds over time: what is compared, and where it is drawn."""

from __future__ import annotations

from site_samples import bench, sample

from builder.site.speeds import EDGE, HEIGHT, MARGIN, WIDTH, decode, lines


def test_a_line_runs_from_the_oldest_to_the_newest_within_its_drawing() -> None:
    (line,) = lines([bench(2), bench(0), bench(1)])
    assert [point.record.started[:10] for point in line.points] == [
        "2026-10-23", "2026-10-24", "2026-10-25"]
    assert (line.points[0].x, line.points[-1].x) == (MARGIN, WIDTH - MARGIN)
    assert all(EDGE <= point.high <= point.y <= point.low <= HEIGHT for point in line.points)
    assert line.sample
    assert [(one.x, two.x) for one, two in line.steps] == [(1.0, 50.0), (50.0, 99.0)]


def test_one_benchmark_stands_in_the_middle() -> None:
    assert lines([bench(0)])[0].points[0].x == WIDTH / 2


def test_other_hardware_is_another_line_and_a_cut_off_run_is_none() -> None:
    other = bench(1)
    assert other.bench
    stated = other.bench.conditions.model_copy(update={"hardware": "another"})
    moved = other.model_copy(update={"bench": other.bench.model_copy(
        update={"conditions": stated})})
    assert len(lines([bench(0), moved])) == 2
    assert lines([bench(0).model_copy(update={"state": "interrupted"}), sample(0, "cpu")]) == []


def test_the_speed_of_one_request_is_shown() -> None:
    found = decode(bench(0))
    assert found is not None
    assert (found.metric, found.point.concurrency) == ("decode", 1)
    assert decode(sample(0, "cpu")) is None
