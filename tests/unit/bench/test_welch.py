"""Student's t against printed tables, and the error of a difference."""

from __future__ import annotations

import math

import pytest

from builder.bench.welch import MOST_DF, Difference, quantile, tail, welch_error

# t, degrees of freedom, one-sided probability: any table of Student's t has these.
TABLE = ((12.7062, 1, 0.025), (4.30265, 2, 0.025), (9.92484, 2, 0.005), (10.2145, 3, 0.001),
         (2.77645, 4, 0.025), (7.17318, 4, 0.001), (2.22814, 10, 0.025), (3.17374, 100, 0.001))


@pytest.mark.parametrize(("t", "df", "p"), TABLE)
def test_the_tail_is_that_of_the_tables(t: float, df: float, p: float) -> None:
    assert tail(t, df) == pytest.approx(p, rel=1e-4)
    assert tail(-t, df) == pytest.approx(1 - p, rel=1e-4)
    assert quantile(p, df) == pytest.approx(t, rel=1e-4)


@pytest.mark.parametrize("df", [1, 1.5, 2.7, 8, 60, 1e6])
def test_half_of_it_lies_above_nought_and_it_falls(df: float) -> None:
    values = [tail(t / 4, df) for t in range(80)]
    assert values[0] == pytest.approx(0.5, rel=1e-3)
    assert values == sorted(values, reverse=True)


def test_beyond_two_hundred_it_stays_a_little_wider_than_the_normal() -> None:
    assert tail(3.0, 1e9) == tail(3.0, MOST_DF)
    assert tail(3.0, 1e9) > 0.5 * math.erfc(3 / math.sqrt(2))


def test_an_error_that_is_known_has_no_end_of_degrees() -> None:
    assert welch_error([(0.0, 3), (0.0, 3)], floor=0.0004) == (0.02, math.inf)


def test_two_equal_sides_have_the_degrees_of_both() -> None:
    error, df = welch_error([(0.01, 3), (0.01, 3)], floor=0.0)
    assert error == pytest.approx(math.sqrt(0.02))
    assert df == pytest.approx(4.0)


def test_a_noisy_side_of_three_has_little_more_than_its_own() -> None:
    assert welch_error([(1.0, 3), (1e-6, 3)], floor=0.0)[1] == pytest.approx(2.0, rel=1e-3)


def test_the_interval_is_around_the_estimate_and_wider_with_doubt() -> None:
    sure, doubtful = Difference(-0.08, 0.01, 100), Difference(-0.08, 0.01, 2)
    assert sure.interval()[0] == pytest.approx(-0.08 - 1.984 * 0.01, abs=1e-5)
    assert doubtful.interval()[0] < sure.interval()[0] < -0.08 < sure.interval()[1]
    assert sure.below(-0.03) < 0.001 < doubtful.below(-0.03)
    assert sure.below(-0.09) > 0.5
