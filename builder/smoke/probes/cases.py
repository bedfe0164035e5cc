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
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from builder.model import Frozen
from builder.recipes.models import Capabilities
from builder.smoke.probes.pictures import Picture, data_url

FILE = Path(__file__).with_name("battery.json")
PICTURE = "picture:"  # the URL of a picture of the battery, drawn when it is asked
SHORT = 512  # tokens: a real model explains where the tiny one states
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
        for needle in sorted(self.needles, key=lambda needle: -needle.at):
            parts.insert(round(needle.at * count), needle.text)
        return " ".join(parts)


class _Case(Frozen):
    """One probe, for models that have what it ``needs`` and not what they are to be ``lacking``.

    One that is not ``general`` expects what only the embedded tiny model was trained to say.
    """

    name: str
    needs: Need = "text"
    lacking: Need | None = None
    general: bool = True

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


class _Request(_Case):
    """A case that sends one chat request of its own; ``options`` are fields of that request."""

    messages: tuple[dict[str, Any], ...] = ()
    max_tokens: int = SHORT
    options: Mapping[str, Any] = {}


class _Judged(_Request):
    """A case whose answer is judged.

    ``contains`` are texts that the answer holds, or of several spellings one; ``ends`` are the
    finish reasons of an answer in words.
    """

    contains: tuple[str | tuple[str, ...], ...] = ()
    ends: tuple[str, ...] = ("stop",)


class AnswerCase(_Judged):
    """One answer, whole or as a stream: text, tool calls, reasoning, structured output.

    ``order`` are texts of which each comes after the one before, ``lacks`` texts that must not
    come; ``calls`` are the tool calls that must come instead of words.
    """

    kind: Literal["answer"]
    tools: tuple[str, ...] = ()
    stream: bool = False
    thinking: bool = False
    order: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()


class TwiceCase(_Judged):
    """The same question again, as a stream and beside ``times`` others: one answer to all."""

    kind: Literal["twice"]
    times: int


class LogprobsCase(_Judged):
    """An answer with the log probability of each token."""

    kind: Literal["logprobs"]


class LoopCase(_Judged):
    """An agent's loop: ``results`` are what the tools return, turn by turn, to ``calls``."""

    kind: Literal["loop"]
    tools: tuple[str, ...]
    calls: tuple[Call, ...]
    results: tuple[tuple[str, ...], ...]


class FilledCase(_Judged):
    """A question after so much text that most of the context is full."""

    kind: Literal["filled"]
    fill: Fill


class OverfullCase(_Request):
    """A question after more text than the context holds."""

    kind: Literal["overfull"]
    fill: Fill


class RefusedCase(_Request):
    """What is no valid request, and must be refused."""

    kind: Literal["refused"]


class SurvivedCase(_Request):
    """What may be too much: it may be answered or refused, the server lives on."""

    kind: Literal["survived"]


class CancelledCase(_Request):
    """A stream that is left after its first piece."""

    kind: Literal["cancelled"]


class CountedCase(_Request):
    """The same question ``times`` at once, compared with the server's counters."""

    kind: Literal["counted"]
    times: int


class TogetherCase(_Case):
    """So many of the battery's plain questions at once."""

    kind: Literal["together"]
    times: int


Filling = FilledCase | OverfullCase
Requesting = (AnswerCase | TwiceCase | LogprobsCase | LoopCase | Filling | RefusedCase
              | SurvivedCase | CancelledCase | CountedCase)
Case = Requesting | TogetherCase


class Battery(Frozen):
    """The tools and the pictures by name, and the cases in the order in which they run."""

    tools: Mapping[str, dict[str, Any]]
    pictures: Mapping[str, Picture]
    cases: tuple[Annotated[Case, Field(discriminator="kind")], ...]

    @model_validator(mode="after")
    def _names_exist(self) -> Battery:
        for case in self.cases:
            names: set[str] = set()
            if isinstance(case, AnswerCase | LoopCase):
                names = {*case.tools, *(call.name for call in case.calls)}
            if unknown := names - set(self.tools) | pictures_of(case) - set(self.pictures):
                raise ValueError(f"{case.name}: there is no {', '.join(sorted(unknown))}")
        return self


@cache
def battery() -> Battery:
    """Read the battery; the file is part of the package and tested with it."""
    return Battery.model_validate(json.loads(FILE.read_text(encoding="utf-8")))


def plain(case: Case, model: str) -> dict[str, Any]:
    """Return the chat request of a case, decoded greedily, its pictures by name.

    A case that asks others of the battery at once has none of its own: no messages are in it.
    """
    if isinstance(case, TogetherCase):
        return {"model": model, "temperature": 0, "max_tokens": SHORT, "messages": []}
    asked: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": case.max_tokens,
                             "messages": list(case.messages), **case.options}
    if isinstance(case, AnswerCase | LoopCase) and case.tools:
        asked["tools"] = [battery().tools[name] for name in case.tools]
    if isinstance(case, AnswerCase) and case.needs == "reasoning":
        asked["chat_template_kwargs"] = {"enable_thinking": case.thinking}
    return asked


def body(case: Requesting, model: str) -> dict[str, Any]:
    """Return the chat request of a case with its pictures drawn."""
    asked = plain(case, model)
    asked["messages"] = [{**message, "content": [_drawn(part) for part in message["content"]]}
                         if isinstance(message.get("content"), list) else message
                         for message in asked["messages"]]
    return asked


def pictures_of(case: Case) -> set[str]:
    """Return the names of the pictures that a case shows."""
    if isinstance(case, TogetherCase):
        return set()
    urls = (part["image_url"]["url"] for message in case.messages
            for part in message.get("content") or () if isinstance(part, dict)
            and part["type"] == "image_url")
    return {url.removeprefix(PICTURE) for url in urls if url.startswith(PICTURE)}


def _drawn(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] != "image_url" or not part["image_url"]["url"].startswith(PICTURE):
        return part
    name = part["image_url"]["url"].removeprefix(PICTURE)
    return {"type": "image_url", "image_url": {"url": data_url(battery().pictures[name])}}
