"""The file of a model's facts, made from what the hub says; what only people know is kept."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from builder.errors import NetworkError
from builder.fetch.hub import HubModel
from builder.files import write_text
from builder.recipes.model_facts import (
    FULL,
    SHOWN,
    ModelFacts,
    Shape,
    facts_path,
    shape_from,
)
from builder.text import one_line

KEPT = ("bits", "kv_cache_bits", "shares_cache")  # the hub says these in many ways, or not at all
WIDTH = 90


def renewed(found: HubModel, old: ModelFacts | None) -> ModelFacts:
    """Return the facts as the hub has them now; raises NetworkError where they are incomplete.

    ``old`` gives what the hub does not say. The note goes: it was about another source.
    """
    size = found.tensor_bytes or sum(found.files.values())
    kept = {key: getattr(old, key) for key in KEPT} if old else {}
    try:
        return ModelFacts(
            repository=found.repository, revision=found.revision, as_of=found.modified,
            parameters=found.parameters, weights_bytes=size, shape=shape_from(found.config),
            largest_file_bytes=max(found.files.values(), default=None),
            source=f"{found.hub}/{found.repository}/tree/{found.revision}", **kept)
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        words = one_line("; ".join(str(error).splitlines()[1:3]) or str(error), SHOWN)
        raise NetworkError(f"what the hub has of {found.repository} is not understood: {words}",
                           where=found.repository,
                           next_step="write the facts by hand, as docs/recipes.md says") from error


def write_facts(root: Path, facts: ModelFacts) -> Path:
    """Write the file of a model's facts."""
    path = facts_path(root, facts.repository)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "\n".join(_lines(facts)) + "\n")
    return path


def _lines(facts: ModelFacts) -> Iterator[str]:
    values = facts.model_dump(mode="json", exclude_defaults=True, exclude={"shape", "shape_of"})
    yield from (f"{key} = {_value(value)}" for key, value in values.items())
    if facts.shape is not None:
        yield from ("", "[shape]")
        shape = facts.shape.model_copy(update={"layer_types": _period(facts.shape)})
        yield from (f"{key} = {_value(value)}" for key, value in shape.model_dump(
            mode="json", exclude_defaults=True).items())


def _period(shape: Shape) -> tuple[str, ...]:
    """Return the shortest pattern that repeats to the layers of the shape."""
    kinds = shape.layer_types
    whole = _repeated(kinds, shape.num_hidden_layers)
    for length in range(1, len(kinds) + 1):
        if _repeated(kinds[:length], shape.num_hidden_layers) == whole:
            return kinds[:length]
    return kinds or (FULL,)


def _repeated(kinds: tuple[str, ...], count: int) -> tuple[str, ...]:
    return tuple(itertools.islice(itertools.cycle(kinds), count))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:_}" if value >= 10**6 else str(value)
    if isinstance(value, list):
        inside = ", ".join(map(_value, value))
        if len(inside) <= WIDTH:
            return f"[{inside}]"
        return "\n".join(["[", *(f"    {_value(item)}," for item in value), "]"])
    return json.dumps(value, ensure_ascii=False)
