"""Files that people write, read at the boundary: TOML into frozen models, all errors at once.

Every error has its dotted key; an unknown key comes with the name that was probably meant.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from builder.errors import ConfigError, Problem, UsageError
from builder.limits import CONFIG_BYTES, read_file
from builder.wording import close_to, explain

Location = Sequence[str | int]


def read_toml(path: Path, *, what: str, next_step: str) -> dict[str, Any]:
    """Return the document in ``path``, which is ``what`` ("version matrix", "recipe").

    Raises UsageError with ``next_step`` when there is no such file, and for what is no regular
    file of a sensible size; ConfigError when it is not TOML.
    """
    try:
        return tomli.loads(read_file(path, CONFIG_BYTES, what).decode("utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"there is no {what}", where=str(path), next_step=next_step) from error
    except RecursionError as error:
        raise ConfigError(path.name, [Problem(path.name, "nested too deeply",
                                              "write fewer brackets in each other")]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(path.name, [Problem(
            path.name, f"not UTF-8 text: byte {error.start + 1} is {error.object[error.start]:#x}",
            "save it as UTF-8")]) from error
    except ValueError as error:
        raise ConfigError(path.name, [Problem(path.name, f"not readable as TOML: {error}",
                                              "correct it there; what follows is read after that")]
                          ) from error
    except OSError as error:
        raise ConfigError(path.name, [Problem(
            str(path), f"cannot be read: {error.strerror}",
            "check its permissions, and those of its folder")]) from error


def shape_problems(model: type[BaseModel], raw: Any) -> list[Problem]:
    """Return everything in ``raw`` that is not as ``model`` wants it, in the order of its fields.

    Unknown keys, missing ones, wrong types and values that a validator refuses.
    """
    try:
        model.model_validate(raw)
    except ValidationError as error:
        return [_problem(model, item) for item in error.errors(include_url=False)]
    return []


def dotted(location: Location) -> str:
    """Write a place in a document as TOML would: ``images."tf5-0.19".vllm``."""
    parts = (str(part) for part in location if part != "[key]")
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part)
                    for part in parts)


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return ``perhaps you meant "…"`` or the list of what is known."""
    if near := close_to(word, known):
        return f'perhaps you meant "{near}"'
    return f"known here: {', '.join(sorted(known))}" if known else ""


def _problem(model: type[BaseModel], item: ErrorDetails) -> Problem:
    location = item["loc"]
    if item["type"] == "extra_forbidden":
        known = _keys_at(model, location[:-1])
        return Problem(dotted(location), "unknown key", suggestion(str(location[-1]), known))
    return Problem(dotted(location), *explain(item))


def _keys_at(model: type[BaseModel], location: Location) -> list[str]:
    """Return the keys that may stand at ``location`` of a document that ``model`` describes."""
    steps = iter(location)
    for step in steps:
        field = next((field for name, field in model.model_fields.items()
                      if (field.alias or name) == step), None)
        inner = list(_models(field.annotation)) if field else []
        if field is None or not inner:
            return []
        model = inner[0]
        if _is_container(field.annotation):
            next(steps, None)  # an entry's own name or number, which is no field
    return [field.alias or name for name, field in model.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models(part)


def _is_container(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    return origin in (dict, tuple, list) or any(
        _is_container(part) for part in typing.get_args(annotation))
