"""The grid of a benchmark, without the points that the server's context cannot hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from builder.errors import UsageError
from builder.model import Frozen
from builder.record.bench import MIN_RUNS

TEMPLATE = 64  # tokens that a chat template may add to a prompt
Tokens = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


class Grid(Frozen):
    """Every combination is one point; each is run ``runs`` times after a warm-up."""

    pp: Tokens = (128, 512, 2048)
    tg: Tokens = (32, 128)
    depth: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    concurrency: Tokens = (1, 2, 4)
    runs: Annotated[int, Field(ge=MIN_RUNS)] = 3

    @property
    def points(self) -> int:
        """Return the number of points."""
        return len(self.pp) * len(self.tg) * len(self.depth) * len(self.concurrency)

    @property
    def rounds(self) -> int:
        """Return how many rounds of requests that is, the warm-up of each point included."""
        return self.points * (self.runs + 1)


FULL = Grid()
QUICK = Grid(pp=(128,), tg=(32,), concurrency=(1, 2))


def fitting(grid: Grid, context: int) -> tuple[Grid, tuple[str, ...]]:
    """Return the part that fits in ``context`` tokens, and in words the part that does not.

    Raises UsageError where nothing fits.
    """
    spare = context - TEMPLATE - max(grid.tg)
    pp = tuple(tokens for tokens in grid.pp if tokens + min(grid.depth) <= spare)
    depth = tuple(tokens for tokens in grid.depth if tokens + max(pp, default=0) <= spare)
    if not pp or not depth:
        raise UsageError(f"no point of the grid fits in the server's context of {context} tokens",
                         where="--pp, --tg, --depth", next_step="choose shorter prompts or answers")
    why = f"does not fit in a context of {context} tokens"
    out = [f"pp{tokens}: {why}" for tokens in grid.pp if tokens not in pp]
    out += [f"depth {tokens}: {why}" for tokens in grid.depth if tokens not in depth]
    return grid.model_copy(update={"pp": pp, "depth": depth}), tuple(out)
