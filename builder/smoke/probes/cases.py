"""The battery as data: ``battery.json`` says what is asked and what an answer must hold.

Expectations are facts ("Paris"), not sentences, so that the tiny model and real ones share them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from builder.matrix import Frozen

FILE = Path(__file__).with_name("battery.json")
Kind = Literal["answer", "twice", "loop", "together", "logprobs", "refused", "cancelled"]


class Call(Frozen):
    """A tool call that must come: its tool, and a text that each named argument holds."""

    name: str
    holds: Mapping[str, str] = {}


class Case(Frozen):
    """One probe. ``results`` are what the tools of a loop return, turn by turn;
    ``times`` is how many requests run together; ``options`` are fields of the request."""  # noqa: D205, D209

    name: str
    kind: Kind = "answer"
    needs: Literal["text", "tools", "reasoning", "vision"] = "text"
    messages: tuple[dict[str, Any], ...] = ()
    tools: tuple[str, ...] = ()
    stream: bool = False
    thinking: bool = False
    max_tokens: int = 128
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    results: tuple[tuple[str, ...], ...] = ()
    times: int = 1
    options: Mapping[str, Any] = {}


class Battery(Frozen):
    """The tools by name, and the cases in the order in which they run."""

    tools: Mapping[str, dict[str, Any]]
    cases: tuple[Case, ...]


@cache
def battery() -> Battery:
    """Read the battery; the file is part of the package and tested with it."""
    return Battery.model_validate(json.loads(FILE.read_text(encoding="utf-8")))


def body(case: Case, model: str) -> dict[str, Any]:
    """Return the chat request of a case, decoded greedily."""
    asked: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": case.max_tokens,
                             "messages": list(case.messages), **case.options}
    if case.tools:
        asked["tools"] = [battery().tools[name] for name in case.tools]
    if case.needs == "reasoning":
        asked["chat_template_kwargs"] = {"enable_thinking": case.thinking}
    return asked
