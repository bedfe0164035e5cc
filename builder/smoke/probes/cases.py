"""The battery as data: ``battery.json`` says what is asked and what an answer must hold.

Expectations are facts ("Paris"), not sentences, so that the tiny model and real ones share them.
Where they are what the tiny model was trained to say, a case is not ``general``; where they take
more than it knows, a case needs a model that is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from builder.model import Frozen
from builder.recipes.models import Capabilities
from builder.smoke.probes.pictures import Picture, data_url

FILE = Path(__file__).with_name("battery.json")
PICTURE = "picture:"  # the URL of a picture of the battery, drawn when it is asked
SHORT = 512  # tokens: a real model explains where the tiny one states
Kind = Literal["answer", "twice", "loop", "together", "logprobs", "refused", "cancelled",
               "filled", "overfull", "survived", "counted"]
Need = Literal["text", "tools", "reasoning", "vision", "general"]


class Call(Frozen):
    """A tool call that must come: its tool, and a text that each named argument holds."""

    name: str
    holds: Mapping[str, str] = {}


class Needle(Frozen):
    """A sentence to be found again, and how far into the text it lies: 0 first, 1 last."""

    at: float
    text: str


class Fill(Frozen):
    """Text before the question: sentences, again and again, until ``share`` of the context."""

    share: float
    sentences: tuple[str, ...]
    needles: tuple[Needle, ...] = ()

    def text(self, count: int) -> str:
        """Return so many sentences, with the needles among them."""
        parts = [self.sentences[number % len(self.sentences)] for number in range(count)]
        for needle in sorted(self.needles, key=lambda one: -one.at):
            parts.insert(round(needle.at * count), needle.text)
        return " ".join(parts)


class Case(Frozen):
    """One probe, for models that have what it ``needs`` and not what they are to be ``lacking``.

    ``contains`` are texts that the answer holds, or of several spellings one; ``order`` are texts
    of which each comes after the one before. ``results`` are what the tools of a loop return, turn
    by turn; ``times`` is how many requests run together; ``options`` are fields of the request;
    ``ends`` are the finish reasons of an answer in words.
    """

    name: str
    kind: Kind = "answer"
    needs: Need = "text"
    lacking: Need | None = None
    general: bool = True
    messages: tuple[dict[str, Any], ...] = ()
    tools: tuple[str, ...] = ()
    stream: bool = False
    thinking: bool = False
    max_tokens: int = SHORT
    contains: tuple[str | tuple[str, ...], ...] = ()
    order: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    ends: tuple[str, ...] = ("stop",)
    calls: tuple[Call, ...] = ()
    results: tuple[tuple[str, ...], ...] = ()
    times: int = 1
    fill: Fill | None = None
    options: Mapping[str, Any] = {}

    def inapplicable(self, able: Capabilities) -> str:
        """Return why the case is not for a model that is able to so much; nothing where it is."""
        if self.needs == "general" and not able.general:
            return "the model knows nothing but what it was trained to say word for word"
        if not getattr(able, self.needs):
            return f"the recipe does not give the model {self.needs}"
        if self.lacking and getattr(able, self.lacking):
            return f"it is for models without {self.lacking}"
        if able.general and not self.general:
            return "what is expected is what the embedded model was trained to say"
        return ""


class Battery(Frozen):
    """The tools and the pictures by name, and the cases in the order in which they run."""

    tools: Mapping[str, dict[str, Any]]
    pictures: Mapping[str, Picture]
    cases: tuple[Case, ...]

    @model_validator(mode="after")
    def _names_exist(self) -> Battery:
        for case in self.cases:
            names = {*case.tools, *(call.name for call in case.calls)}
            if unknown := names - set(self.tools) | pictures_of(case) - set(self.pictures):
                raise ValueError(f"{case.name}: there is no {', '.join(sorted(unknown))}")
        return self


@cache
def battery() -> Battery:
    """Read the battery; the file is part of the package and tested with it."""
    return Battery.model_validate(json.loads(FILE.read_text(encoding="utf-8")))


def plain(case: Case, model: str) -> dict[str, Any]:
    """Return the chat request of a case, decoded greedily, its pictures by name."""
    asked: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": case.max_tokens,
                             "messages": list(case.messages), **case.options}
    if case.tools:
        asked["tools"] = [battery().tools[name] for name in case.tools]
    if case.needs == "reasoning":
        asked["chat_template_kwargs"] = {"enable_thinking": case.thinking}
    return asked


def body(case: Case, model: str) -> dict[str, Any]:
    """Return the chat request of a case with its pictures drawn."""
    asked = plain(case, model)
    asked["messages"] = [{**message, "content": [_drawn(part) for part in message["content"]]}
                         if isinstance(message.get("content"), list) else message
                         for message in asked["messages"]]
    return asked


def pictures_of(case: Case) -> set[str]:
    """Return the names of the pictures that a case shows."""
    urls = (part["image_url"]["url"] for message in case.messages
            for part in message.get("content") or () if isinstance(part, dict)
            and part["type"] == "image_url")
    return {url.removeprefix(PICTURE) for url in urls if url.startswith(PICTURE)}


def _drawn(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] != "image_url" or not part["image_url"]["url"].startswith(PICTURE):
        return part
    name = part["image_url"]["url"].removeprefix(PICTURE)
    return {"type": "image_url", "image_url": {"url": data_url(battery().pictures[name])}}
