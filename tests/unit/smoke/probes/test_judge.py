"""One answer and its case: each fault is caught by its name, right answers pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from builder.record.check import Status
from builder.smoke.client import Client
from builder.smoke.probes.run import run
from tests.unit.fake_openai import Fake, Message
from tests.unit.smoke.probes.asking import arguments, case, content, fails, served

__all__ = ["served"]  # the fixture


@pytest.mark.parametrize(("name", "fault", "words"), [
    ("text: capital of France", content("!!!!!!!!!!"), "'!!!!!' in the answer"),
    ("text: capital of France", content("Paris \ufffd"), "U+FFFD"),
    ("text: capital of France", content("It is Rome."), "expected 'Paris'"),
    ("text: streamed", content(""), "the content is empty"),
    ("text: long answer", content("The sea is calm tonight. " * 40), "a loop of"),
    ("tools: agentic", content("18 <|tool_call>call:x"), "'<|tool_call>' leaks into the content"),
    ("tools: single", content("<tool_call|>"), "leaks into the content"),
    ("tools: single", arguments(lambda text: text[:-1]), "invalid JSON"),
    ("tools: single, streamed", arguments(lambda text: text + "}"), "invalid JSON"),
    ("tools: single", arguments(lambda text: "[" * 5000), "invalid JSON"),
    ("tools: single", arguments(lambda text: '{"location": 5}'), "is not of type 'string'"),
    ("tools: HTML in streamed arguments", arguments(lambda text: text.replace("<", "<<")),
     "'<<' is doubled"),
    ("tools: parallel", lambda message, body: message["tool_calls"].pop(), "expected calls of"),
    ("tools: choice among three", lambda message, body: message.update(tool_calls=[]),
     "expected calls of"),
    ("tools: full loop", arguments(lambda text: "{"), "in turn 1: arguments of search_web"),
    ("reasoning: asked", lambda message, body: message.update(reasoning=None),
     "reasoning was asked for and is empty"),
    ("reasoning: asked, streamed", lambda message, body: message.update(reasoning=""),
     "reasoning was asked for and is empty"),
    ("reasoning: not asked", lambda message, body: message.update(reasoning="Hm."),
     "reasoning was not asked for"),
    ("structured output", content('{"country": "France"}'), "'capital' is a required property"),
    ("vision: drawn scene", content("I cannot see any picture."), "expected 'house'"),
    ("vision: drawn scene", content("A house beside a tree under a grey sky."), "expected 'sun'"),
    ("vision: drawn scene, streamed", content("A cat on a sofa."), "expected 'tree'"),
    ("vision: three pictures", content("A blue square, a red circle and a green triangle."),
     "expected circle, square, triangle in this order"),
    ("vision: three pictures", content("A red circle."), "expected 'blue'"),
    ("context: filled to nine tenths", content("Once upon a time"), "expected 'Paris'"),
    ("context: needles at the start and in the middle", content("It is tungsten."),
     "expected 'marigold'"),
    ("text: formula of water", content("It is CO2."), "expected 'H2O' or 'H₂O'"),
    ("text: essay", content("The wind does it."), "expected 'moon'"),
    ("16 requests at once", content("It is Rome."), "text: capital of France"),
])
def test_each_fault_is_caught_by_name(
        served: tuple[Client, Fake], name: str,
        fault: Callable[[Message, dict[str, Any]], None], words: str) -> None:
    client, fake = served
    fake.fault = fault
    assert words in fails(client, name)


def test_reasoning_counts_under_its_old_name(served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.fault = lambda message, body: message.update(reasoning_content=message.pop("reasoning"))
    assert run(client, case("reasoning: asked")).status is Status.PASS


@pytest.mark.parametrize("said", ["H2O", "It is H₂O.", "$\\text{H}_2\\text{O}$", "H_2O"])
def test_any_spelling_of_a_fact_will_do(served: tuple[Client, Fake], said: str) -> None:
    client, fake = served
    fake.fault = content(said)
    assert run(client, case("text: formula of water")).status is Status.PASS
