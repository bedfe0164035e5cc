"""The grid asked for, what a context can hold of it, and the text that prompts are cut from."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from builder.bench.grid import FULL, QUICK, Grid, fitting
from builder.errors import UsageError


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
