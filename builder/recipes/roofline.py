"""Decode speed that the memory bus allows, beside what was published: which rows it explains.

Each token reads all active weights once, so that a Spark cannot decode faster than its bandwidth
divided by their bytes. KV cache and activations are left out: at one request of a few thousand
tokens they are a few per cent. A drafter makes several tokens of one reading, and is not bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat, model_validator

from builder.config_file import read_toml
from builder.model import Frozen, Link

FIGURES = Path(__file__).with_name("roofline.toml")
BANDWIDTH = 273e9  # bytes a second of a DGX Spark, as NVIDIA publishes it
EXPLAINED = 0.6  # of the bound: software reaches 60 to 85 % of it in the rows without a comment


class Verdict(StrEnum):
    """What the bound says of a published figure."""

    EXPLAINED = "explained"
    SLOWER = "not explained: slower"
    FASTER = "not explained: faster"
    DRAFTED = "not bound: a drafter"


class Row(Frozen):
    """One published decode speed, or a range; ``drafted`` tokens are guessed ahead."""

    model: str
    active_billion: PositiveFloat
    format: str
    tok_s: PositiveFloat
    up_to: PositiveFloat | None = None
    nodes: Annotated[int, Field(ge=1)] = 1
    drafted: Annotated[int, Field(ge=0)] = 0
    comment: str = ""
    source: Link


class Figures(Frozen):
    """The rows, and the bits of a weight by format."""

    bits: Mapping[str, PositiveFloat]
    row: tuple[Row, ...]

    @model_validator(mode="after")
    def _known_formats(self) -> Figures:
        unknown = {row.format for row in self.row} - set(self.bits)
        if unknown:
            raise ValueError(f"no bits for the formats {', '.join(sorted(unknown))}")
        return self

    def bound(self, row: Row) -> float:
        """Return the tokens a second that the memory buses of the row's machines allow."""
        return row.nodes * BANDWIDTH / (row.active_billion * 1e9 * self.bits[row.format] / 8)


@cache
def load_figures() -> Figures:
    """Return the published figures of this installation."""
    return Figures.model_validate(read_toml(FIGURES, what="decode figures", next_step=""))


def judge(row: Row, bound: float) -> Verdict:
    """Compare a row with its bound; a range is explained when all of it is."""
    if row.drafted:
        return Verdict.DRAFTED
    if (row.up_to or row.tok_s) > bound:
        return Verdict.FASTER
    return Verdict.EXPLAINED if row.tok_s >= EXPLAINED * bound else Verdict.SLOWER


def lines(figures: Figures) -> Iterator[list[str]]:
    """Yield the table's lines: what, bound, published, error, verdict, source."""
    for row in figures.row:
        bound = figures.bound(row)
        values = [row.tok_s, *([row.up_to] if row.up_to else [])]
        verdict = judge(row, bound)
        comment = f" ({row.comment})" if row.comment and verdict is not Verdict.EXPLAINED else ""
        yield [row.model, row.format, str(row.nodes), f"{bound:.1f}",
               " to ".join(f"{value:g}" for value in values),
               " to ".join(f"{value / bound - 1:+.0%}" for value in values),
               f"{verdict}{comment}", row.source]
