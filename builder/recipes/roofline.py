"""Decode speed that the memory bus allows, beside what was published: which rows it explains.

Each step reads all active weights once: attention, dense layers, the experts that its tokens need,
and the output layer, which quantizations leave at 16 bits. A server cannot decode faster than its
bandwidth divided by their bytes. KV cache and activations are left out: at a few thousand tokens
they are a few per cent. A drafter makes several tokens of one reading, and is not bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat, model_validator

from builder.config_file import read_toml
from builder.errors import ConfigError, Problem, command
from builder.model import Frozen, Link
from builder.recipes.model_facts import FOLDER, Shape, facts_of

FIGURES = Path(__file__).with_name("roofline.toml")
SPARK_GBS = 273.0  # of a DGX Spark, as NVIDIA publishes it
EXPLAINED = 0.6  # of the bound: software reaches 60 to 95 % of it in the rows without a comment
OUTPUT_BITS = 16


class Verdict(StrEnum):
    """What the bound says of a published figure."""

    EXPLAINED = "explained"
    SLOWER = "not explained: slower"
    FASTER = "not explained: faster"
    DRAFTED = "not bound: a drafter"


class Format(Frozen):
    """Bits of a weight in each part of a model, with the scales of its groups."""

    attention: PositiveFloat
    dense: PositiveFloat
    experts: PositiveFloat | None = None


class Row(Frozen):
    """One published decode speed, or a range; ``drafted`` tokens are guessed ahead.

    ``requests`` run at once, and the figure is of all of them.
    """

    model: str
    format: str
    tok_s: PositiveFloat
    up_to: PositiveFloat | None = None
    requests: Annotated[int, Field(ge=1)] = 1
    hardware: str = "Spark"
    gbs: PositiveFloat = SPARK_GBS
    nodes: Annotated[int, Field(ge=1)] = 1
    drafted: Annotated[int, Field(ge=0)] = 0
    what: str = ""
    comment: str = ""
    source: Link


class Figures(Frozen):
    """The rows, the repositories whose shapes they have, and the formats of weights."""

    models: Mapping[str, str]
    active_experts: Annotated[int, Field(ge=1)]
    format: Mapping[str, Format]
    row: tuple[Row, ...]

    @model_validator(mode="after")
    def _known_names(self) -> Figures:
        unknown = ({row.format for row in self.row} - set(self.format)
                   | {row.model for row in self.row} - set(self.models))
        if unknown:
            raise ValueError(f"nothing is said of {', '.join(sorted(unknown))}")
        return self

    def step_bytes(self, row: Row, shape: Shape) -> float:
        """Return the bytes of weights that one step of all requests reads.

        Requests share the dense weights; of the experts each draws its own, some of them the same.
        """
        bits = self.format[row.format]
        total = (shape.attention_parameters() * bits.attention
                 + shape.mlp_parameters() * bits.dense
                 + shape.vocab_size * shape.hidden_size * OUTPUT_BITS)
        if shape.num_experts:
            drawn = 1 - (1 - self.active_experts / shape.num_experts) ** row.requests
            total += shape.expert_parameters() * drawn * (bits.experts or bits.dense)
        return total / 8

    def bound(self, row: Row, shape: Shape) -> float:
        """Return the tokens a second that the memory buses of the row's machines allow."""
        return row.requests * row.nodes * row.gbs * 1e9 / self.step_bytes(row, shape)


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


def lines(figures: Figures, root: Path) -> Iterator[list[str]]:
    """Yield the table's lines; ``root`` is the checkout with the models' facts."""
    shapes = {name: _shape(root, repository) for name, repository in figures.models.items()}
    for row in figures.row:
        bound = figures.bound(row, shapes[row.model])
        values = [row.tok_s, *([row.up_to] if row.up_to else [])]
        verdict = judge(row, bound)
        comment = f" ({row.comment})" if row.comment and verdict is not Verdict.EXPLAINED else ""
        yield [row.model, row.format, f"{row.nodes} x {row.hardware}", str(row.requests), row.what,
               f"{bound:.1f}", " to ".join(f"{value:g}" for value in values),
               " to ".join(f"{value / bound - 1:+.0%}" for value in values),
               f"{verdict}{comment}", row.source]


def _shape(root: Path, repository: str) -> Shape:
    facts = facts_of(root, repository)
    if facts is None or facts.shape is None:
        raise ConfigError(str(FOLDER), [Problem(
            repository, "there are no facts of this model",
            f"make them: {command('recipe', 'facts', repository)}")])
    return facts.shape
