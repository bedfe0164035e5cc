"""The grid asked for, what a context can hold of it, and the text that prompts are cut from."""

from __future__ import annotations

import hashlib

import pytest
from pydantic import ValidationError

from builder.bench.grid import FULL, QUICK, Grid, fitting
from builder.bench.text import sentences
from builder.errors import UsageError
from builder.record.bench import Conditions, GridPoint
from tests.unit.bench_results import CONDITIONS, a_series


def test_the_whole_grid_is_the_published_one() -> None:
    assert (FULL.pp, FULL.tg, FULL.concurrency) == ((128, 512, 2048), (32, 128), (1, 2, 4))
    assert (FULL.points, FULL.rounds) == (18, 72)
    assert QUICK.rounds == 8


def test_a_long_context_holds_all_of_it() -> None:
    assert fitting(FULL, 65536) == (FULL, ())


def test_what_does_not_fit_is_left_out_in_words() -> None:
    grid, out = fitting(FULL, 2048)
    assert grid.pp == (128, 512)
    assert out == ("pp2048: does not fit in a context of 2048 tokens",)


def test_a_depth_must_leave_room_for_the_longest_prompt() -> None:
    grid, out = fitting(Grid(pp=(128, 2048), depth=(0, 4096, 16384)), 8192)
    assert (grid.pp, grid.depth) == ((128, 2048), (0, 4096))
    assert out == ("depth 16384: does not fit in a context of 8192 tokens",)
    exactly = 128 + 128 + 64
    assert fitting(Grid(pp=(128,)), exactly)[1] == ()
    with pytest.raises(UsageError, match=f"context of {exactly - 1} tokens"):
        fitting(Grid(pp=(128,)), exactly - 1)


@pytest.mark.parametrize("wrong", [{"pp": ()}, {"tg": (0,)}, {"depth": (-1,)}, {"runs": 1},
                                   {"concurrency": (0,)}, {"rounds": 3}])
def test_a_grid_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Grid.model_validate(wrong)


def test_the_text_is_the_same_on_every_machine() -> None:
    """Another text is another condition: old baselines are refused when this digest changes."""
    text = sentences()
    assert hashlib.sha256(text.encode()).hexdigest().startswith("01621d5fcff4f67e")
    assert text.isascii()
    assert len(text) > 600_000


def test_its_sentences_differ_so_that_no_prefix_is_cached() -> None:
    said = [one.strip() for one in sentences(2000).split(".")]
    assert len(set(said)) > 1990


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
