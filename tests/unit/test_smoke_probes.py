"""The battery against a fake server: quiet on right answers, red by name for each fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from builder.recipes import Capabilities
from builder.smoke.client import Client, Unanswered, assemble
from builder.smoke.probes import ask, kinds, run
from builder.smoke.probes.cases import Case, battery
from builder.smoke.verdict import Check, Status, passed
from tests.unit.fake_openai import Fake, Message, serving

ABLE = Capabilities(tools=True, reasoning=True)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Client, Fake]]:
    monkeypatch.setattr(kinds, "FREE_WITHIN_S", 0.5)
    with serving() as (port, fake):
        yield Client(port, "tiny"), fake


def case(name: str) -> Case:
    return next(case for case in battery().cases if case.name == name)


def fails(client: Client, name: str) -> str:
    found = run(client, case(name))
    assert found.status is Status.FAIL, found
    return found.detail


def test_a_healthy_server_passes_all(served: tuple[Client, Fake]) -> None:
    checks = ask(served[0], ABLE)
    assert [check for check in checks if check.status is not Status.PASS] == [
        Check(check="vision", status=Status.NOT_APPLICABLE,
              detail="the recipe says that it does not see")]
    assert passed(checks)


def test_what_the_recipe_does_not_give_is_not_applicable_and_says_why(
        served: tuple[Client, Fake]) -> None:
    checks = [check for check in ask(served[0], Capabilities()) if check.check != "vision"]
    beyond = [check for check in checks if check.status is Status.NOT_APPLICABLE]
    assert len(beyond) == sum(case.needs != "text" for case in battery().cases) > 10
    assert all(check.detail.startswith("the recipe does not give") for check in beyond)


def content(text: str) -> Callable[[Message, dict[str, Any]], None]:
    return lambda message, body: message.update(content=text)


def arguments(change: Callable[[str], str]) -> Callable[[Message, dict[str, Any]], None]:
    def fault(message: Message, body: dict[str, Any]) -> None:
        for call in message.get("tool_calls") or []:
            call["function"]["arguments"] = change(call["function"]["arguments"])
    return fault


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


@pytest.mark.parametrize("value", [float("nan"), None, 0.5, float("-inf")])
def test_log_probabilities_are_numbers(served: tuple[Client, Fake], value: float | None) -> None:
    client, fake = served
    fake.logprob = value
    assert "log probabilities" in fails(client, "logprobs")


@pytest.mark.parametrize(("name", "value", "probe", "words"), [
    ("finish", "length", "text: code", "it ended with 'length'"),
    ("cut", True, "text: streamed", "without [DONE]"),
    ("leaks", True, "cancelled stream", "still run"),
    ("lenient", True, "refused: no messages", "status 200, not 4xx"),
])
def test_the_server_itself_is_at_fault(served: tuple[Client, Fake], name: str, value: Any,
                                       probe: str, words: str) -> None:
    client, fake = served
    setattr(fake, name, value)
    assert words in fails(client, probe)


def test_another_answer_at_temperature_0_is_caught(served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.fault = lambda message, body: message.update(content=f"Madrid {fake.asked}")
    assert "another answer" in fails(client, "same answer at temperature 0")


def test_one_500_in_ten_is_flaky_and_no_pass(served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.status = lambda number: 500 if number % 10 == 0 else 200
    checks = ask(client, ABLE)
    flaky = [check for check in checks if check.status is Status.FLAKY]
    assert flaky
    assert all("500" in check.detail and "asked again" in check.detail for check in flaky)
    assert not passed(checks)


@pytest.mark.parametrize(("tokens", "whole"), [(8, True), (65, False)])
def test_a_long_stream_in_one_piece_is_none_but_a_busy_server_merges_short_ones(
        tokens: int, whole: bool) -> None:
    chunks = [{"choices": [{"delta": {"content": "A story."}, "finish_reason": "stop"}]},
              {"choices": [], "usage": {"completion_tokens": tokens}}]
    if whole:
        assert assemble(iter(chunks))["choices"][0]["message"]["content"] == "A story."
    else:
        with pytest.raises(Unanswered, match="one piece"):
            assemble(iter(chunks))


def test_nobody_there_is_a_failure_not_a_traceback() -> None:
    assert "Unanswered" in fails(Client(1, "tiny"), "text: code")
