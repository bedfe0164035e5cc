"""The memory estimate beside what running servers reported, row by row (``reported.toml``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat, model_validator

from builder.config_file import read_toml
from builder.errors import UsageError
from builder.model import Frozen, Link
from builder.recipes.memory import CPU, GIB, Estimate, Machine, Rules, estimate, rules_of, settings
from builder.recipes.model_facts import ModelFacts, facts_of, folder_facts

ROWS = Path(__file__).with_name("reported.toml")


class Row(Frozen):
    """One start of a server: with what, and what it reported."""

    model: str | None = None
    path: str | None = None
    drafter: str | None = None
    hardware: str
    gib: Annotated[float, Field(ge=0)] = 0.0
    vllm: str
    serve: tuple[str, ...]
    environment: Mapping[str, str] = Field(default_factory=dict)
    weights_gib: PositiveFloat | None = None
    kv_cache_gib: PositiveFloat | None = None
    kv_cache_tokens: PositiveFloat | None = None
    concurrency: PositiveFloat | None = None
    used_gib: PositiveFloat | None = None
    source: Link
    note: str = ""

    @model_validator(mode="after")
    def _one_model(self) -> Row:
        if (self.model is None) == (self.path is None):
            raise ValueError("name either a model or a path")
        return self

    @property
    def machine(self) -> Machine:
        """Return the machine that the row is of."""
        return CPU if self.hardware == CPU.name else Machine(self.hardware, self.gib)

    @property
    def rules(self) -> Rules:
        """Return how the row's version of vLLM counts."""
        return rules_of(self.vllm)


class _Rows(Frozen):
    row: tuple[Row, ...]


@cache
def load_rows() -> tuple[Row, ...]:
    """Return the reported figures of this installation."""
    return _Rows.model_validate(read_toml(ROWS, what="reported memory", next_step="")).row


def row_estimate(root: Path, row: Row) -> Estimate:
    """Estimate a row; ``root`` is the checkout with the models' facts. Raises UsageError."""
    wanted = settings(row.serve, row.environment, row.machine)
    drafter = _facts(root, row.drafter) if row.drafter else None
    facts = folder_facts(root / row.path, row.source) if row.path else _facts(root, row.model or "")
    return estimate(facts, wanted, row.machine, row.rules, drafter)


def lines(root: Path) -> Iterator[list[str]]:
    """Yield the table's lines: what, where, estimated, reported, error, source."""
    for row in load_rows():
        found = row_estimate(root, row)
        for name, estimated, seen in _figures(row, found):
            if seen is not None:
                yield [row.model or Path(row.path or "").name, row.hardware, row.vllm, name,
                       _text(estimated), _text(seen), f"{estimated / seen - 1:+.1%}",
                       row.source + (f" ({row.note})" if row.note else "")]


def _figures(row: Row, found: Estimate) -> Iterator[tuple[str, float, float | None]]:
    yield "weights, GiB", found.weights / GIB, row.weights_gib
    yield "KV cache, GiB", found.cache / GIB, row.kv_cache_gib
    yield "KV cache, tokens", float(found.tokens), row.kv_cache_tokens
    yield "requests of full length", found.concurrency, row.concurrency
    yield "in all, GiB", (found.weights + found.share + found.cache) / GIB, row.used_gib


def _text(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


def _facts(root: Path, repository: str) -> ModelFacts:
    found = facts_of(root, repository)
    if found is None:
        raise UsageError(f"there are no facts of {repository}", where="recipes/models",
                         next_step="write them, as docs/recipes.md says")
    return found
