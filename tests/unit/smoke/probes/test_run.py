"""The battery against a fake server: quiet on right answers, red by name for each fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from builder.recipes.models import Capabilities
from builder.record.check import Status, passed
from builder.smoke.client import Client, Unanswered
from builder.smoke.probes import counters
from builder.smoke.probes.cases import Case, battery
from builder.smoke.probes.run import UNASKED, ask, run
from tests.unit.fake_openai import Fake, Message, serving

TINY = Capabilities(general=False, tools=True, reasoning=True)
ABLE = Capabilities(tools=True, reasoning=True, vision=True)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Client, Fake]]:
    monkeypatch.setattr(counters, "FREE_WITHIN_S", 0.5)
    with serving() as (port, fake):
        fake.sees = True
        yield Client(port, "tiny"), fake


def case(name: str) -> Case:
    return next(case for case in battery().cases if case.name == name)


def fails(client: Client, name: str) -> str:
    found = run(client, case(name))
    assert found.status is Status.FAIL, found
    return found.detail


@pytest.mark.parametrize("able", [TINY, ABLE])
def test_a_healthy_server_passes_all(served: tuple[Client, Fake], able: Capabilities) -> None:
    served[1].sees = able.vision
    checks = ask(served[0], able)
    states = {check.status for check in checks}
    assert states == {Status.PASS, Status.NOT_APPLICABLE}, [
        check for check in checks if check.status not in (Status.PASS, Status.NOT_APPLICABLE)]
    assert passed(checks)


def beyond(able: Capabilities) -> dict[str, str]:
    found = {case.name: case.inapplicable(able) for case in battery().cases}
    return {name: why for name, why in found.items() if why}


def test_what_the_recipe_does_not_give_is_not_applicable_and_says_why(
        served: tuple[Client, Fake]) -> None:
    blind = Capabilities()
    checks = ask(served[0], blind)
    assert {check.check: check.detail for check in checks
            if check.status is Status.NOT_APPLICABLE} == beyond(blind)
    assert "the recipe does not give the model vision" in beyond(blind).values()
    assert len(beyond(blind)) > 10


def test_the_tiny_model_and_a_real_one_share_all_but_a_few_cases() -> None:
    """What either is not asked stands in the data, and each has its own of the same kind."""
    assert set(beyond(ABLE)) == {
        "text: long answer", "text: long answer, streamed", "tools: full loop",
        "context: filled to nine tenths", "refused: a picture, by a model that sees none"}
    assert {name for name in beyond(TINY) if not name.startswith(("vision", "refused"))
            } == {"text: essay", "text: essay, streamed", "tools: loop in words",
                  "context: needles at the start and in the middle"}
    assert "word for word" in beyond(TINY)["text: essay"]
    assert "embedded model was trained" in beyond(ABLE)["tools: full loop"]


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


@pytest.mark.parametrize("value", [float("nan"), None, 0.5, float("-inf")])
def test_log_probabilities_are_numbers(served: tuple[Client, Fake], value: float | None) -> None:
    client, fake = served
    fake.logprob = value
    assert "log probabilities" in fails(client, "logprobs")


@pytest.mark.parametrize(("name", "value", "probe", "words"), [
    ("sees", True, "refused: a picture, by a model that sees none", "status 200, not 4xx"),
    ("endless", True, "refused: longer than the context", "status 200, not 4xx"),
    ("health", 503, "refused: longer than the context", "/health no longer answers 200"),
    ("health", 503, "vision: 12,000 by 12,000 pixels", "/health no longer answers 200"),
    ("frozen", True, "metrics: four answers counted", "request_success_total moved by 0"),
    ("frozen", True, "cancelled stream", "prompt_tokens_total did not move"),
    ("held", 0.5, "metrics: four answers counted", "vllm:kv_cache_usage_perc is 0.5"),
    ("held", 0.5, "cancelled stream", "vllm:kv_cache_usage_perc is 0.5"),
    ("running", 2, "metrics: four answers counted", "vllm:num_requests_running is 2"),
    ("finish", "length", "text: code", "it ended with 'length'"),
    ("cut", True, "text: streamed", "without [DONE]"),
    ("leaks", True, "cancelled stream", "num_requests_running is"),
    ("lenient", True, "refused: no messages", "status 200, not 4xx"),
])
def test_the_server_itself_is_at_fault(served: tuple[Client, Fake], name: str, value: Any,
                                       probe: str, words: str) -> None:
    client, fake = served
    setattr(fake, name, value)
    assert words in fails(client, probe)


def test_a_gauge_that_is_no_number_is_not_in_the_record(served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.held = float("nan")
    found = client.metrics()
    assert 'vllm:kv_cache_usage_perc{engine="0"}' not in found
    assert 'vllm:prompt_tokens_total{engine="0"}' in found


@pytest.mark.parametrize("said", ["H2O", "It is H₂O.", "$\\text{H}_2\\text{O}$", "H_2O"])
def test_any_spelling_of_a_fact_will_do(served: tuple[Client, Fake], said: str) -> None:
    client, fake = served
    fake.fault = content(said)
    assert run(client, case("text: formula of water")).status is Status.PASS


def test_the_prompt_is_as_long_as_it_says(served: tuple[Client, Fake]) -> None:
    client, fake = served
    sent = []
    fake.fault = lambda message, body: sent.append(body)
    found = run(client, case("context: needles at the start and in the middle"))
    assert found.status is Status.PASS, found
    text = sent[-1]["messages"][-1]["content"]
    assert 0.88 * 2048 < len(text.split()) < 0.92 * 2048
    assert text.index("marigold") < 60
    assert 0.45 < text.index("tungsten") / len(text) < 0.55
    assert "of 2048 tokens)" in found.answer


def test_a_prompt_that_is_cut_off_is_caught_by_its_count(served: tuple[Client, Fake],
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = served
    whole = client.chat

    def cut(body: dict[str, Any], timeout: float = 9) -> dict[str, Any]:
        got = whole(body, timeout)
        got["usage"]["prompt_tokens"] = min(got["usage"]["prompt_tokens"], 1024)
        return got

    monkeypatch.setattr(client, "chat", cut)
    assert "counts 1024 tokens" in fails(client, "context: filled to nine tenths")


def test_a_picture_that_kills_the_request_is_caught(served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.status = lambda number: 500
    assert "status 500" in fails(client, "vision: 12,000 by 12,000 pixels")


def test_a_request_shows_its_pictures_by_name(served: tuple[Client, Fake]) -> None:
    found = run(served[0], case("vision: drawn scene"))
    assert "picture:house" in found.request
    assert "base64" not in found.request


def test_a_server_that_never_answers_ends_the_questions(
        served: tuple[Client, Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(body: dict[str, Any]) -> dict[str, Any]:
        raise Unanswered("no whole answer", timed_out=True)
    monkeypatch.setattr(served[0], "chat", silent)
    checks = ask(served[0], TINY)
    first, last = checks[0], checks[-1]
    assert first.status is Status.FAIL
    assert (last.check, last.status) == (UNASKED, Status.NOT_APPLICABLE)
    assert "the server hangs" in last.detail
    assert {check.detail for check in checks[1:-1]} <= set(beyond(TINY).values())


def test_a_dead_server_fills_one_row_that_says_how_many_were_not_asked(
        served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.status = lambda number: 500
    checks = ask(client, TINY, gone=lambda: "the engine died: a reason")
    able = len(battery().cases) - len(beyond(TINY))
    assert [check.check for check in checks if check.detail.endswith("a reason")] == [UNASKED]
    assert checks[-1].detail == (
        f"{able - 1} of the battery's questions were not asked: the engine died: a reason")
    assert len(checks) == len(beyond(TINY)) + 2


def test_a_failure_alone_ends_nothing(served: tuple[Client, Fake]) -> None:
    """Words in an answer are no sign of a hang: only the requests themselves can time out."""
    client, fake = served
    fake.fault = content("it timed out, it timed out")
    checks = ask(client, TINY)
    assert UNASKED not in {check.check for check in checks}


def test_another_answer_at_temperature_0_is_caught(served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.fault = lambda message, body: message.update(content=f"Madrid {fake.asked}")
    assert "another answer" in fails(client, "same answer at temperature 0")


def test_one_500_in_ten_is_flaky_and_no_pass(served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.status = lambda number: 500 if number % 10 == 0 else 200
    checks = ask(client, TINY)
    flaky = [check for check in checks if check.status is Status.FLAKY]
    assert flaky
    assert all("500" in check.detail and "asked again" in check.detail for check in flaky)
    assert not passed(checks)


def test_nobody_there_is_a_failure_not_a_traceback() -> None:
    assert "no whole answer: " in fails(Client(1, "tiny"), "text: code")


@pytest.mark.parametrize("name", [case.name for case in battery().cases])
def test_an_answer_of_another_shape_fails_in_words(served: tuple[Client, Fake], name: str,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever JSON object a server answers, there is a check and no traceback."""
    client, _ = served
    for strange in ({}, {"choices": []}, {"choices": [{"message": None}], "usage": 7},
                    {"choices": "text", "usage": None}):
        monkeypatch.setattr(Client, "chat", lambda *_, strange=strange, **__: strange)
        monkeypatch.setattr(Client, "events", lambda *_, strange=strange: iter([strange]))
        assert run(client, case(name)).status in Status
