"""The limits of a soak, each with its reason: ``rules.toml``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import tomli
from pydantic import Field

from builder.model import Frozen


class Limit(Frozen):
    """A number, and why it is that one."""

    value: float = Field(gt=0)
    reason: str = Field(min_length=1)


class Leak(Frozen):
    """What memory that grows is: after which warm-up, how fast, and by how much in all."""

    warm_up: Limit
    warm_up_share: Limit
    fewest: Limit
    slope: Limit
    growth: Limit


class Long(Frozen):
    """How long a long answer is, what it leaves of the context, and in which parts it is judged."""

    tokens: Limit
    room: Limit
    window: Limit


class Rules(Frozen):
    """All limits; times are in minutes."""

    sample: Limit
    round: Limit
    idle: Limit
    frozen: Limit
    unwatched: Limit
    leak: Leak
    long: Long


@cache
def rules() -> Rules:
    """Read the limits; the file is part of the package and tested with it."""
    text = Path(__file__).with_name("rules.toml").read_text(encoding="utf-8")
    return Rules.model_validate(tomli.loads(text))


def patient(factor: float) -> Rules:
    """Return the limits for a server that is so many times as slow, as an emulated one is."""
    found = rules()
    slow = {name: limit.model_copy(update={"value": limit.value * factor})
            for name, limit in (("frozen", found.frozen), ("idle", found.idle))}
    return found.model_copy(update=slow)
