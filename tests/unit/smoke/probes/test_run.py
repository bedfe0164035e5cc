"""The battery against a fake server: quiet on right answers, red on faults, ended by a death."""

from __future__ import annotations

import json
from typing import Any

import pytest

from builder.errors import EngineError
from builder.recipes.models import Capabilities
from builder.record.check import Check, Status, passed
from builder.smoke.client import Client, Unanswered
from builder.smoke.probes.cases import battery
from builder.smoke.probes.outcome import ProbeResult
from builder.smoke.probes.run import UNASKED, ask, attempt, run
from tests.unit.fake_openai import Fake
from tests.unit.smoke.probes.asking import ABLE, TINY, beyond, case, content, fails, served

__all__ = ["served"]  # the fixture


@pytest.mark.parametrize("able", [TINY, ABLE])
def test_a_healthy_server_passes_all(served: tuple[Client, Fake], able: Capabilities) -> None:
    served[1].sees = able.vision
    checks = ask(served[0], able)
    states = {check.status for check in checks}
    assert states == {Status.PASS, Status.NOT_APPLICABLE}, [
        check for check in checks if check.status not in (Status.PASS, Status.NOT_APPLICABLE)]
    assert passed(checks)


def test_what_the_recipe_does_not_give_is_not_applicable_and_says_why(
        served: tuple[Client, Fake]) -> None:
    blind = Capabilities()
    checks = ask(served[0], blind)
    assert {check.check: check.detail for check in checks
            if check.status is Status.NOT_APPLICABLE} == beyond(blind)
    assert "the recipe does not give the model vision" in beyond(blind).values()
    assert len(beyond(blind)) > 10


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


def test_a_failure_of_a_server_that_was_stopped_is_not_kept(served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.status = lambda number: 200 if number < 3 else 500
    kept: list[Check] = []

    def gone() -> str:
        raise EngineError("stopped from outside")

    with pytest.raises(EngineError):
        ask(client, TINY, kept.append, gone)
    assert [check.status for check in kept] == [Status.PASS, Status.PASS]


def test_a_failure_alone_ends_nothing(served: tuple[Client, Fake]) -> None:
    """Words in an answer are no sign of a hang: only the requests themselves can time out."""
    client, fake = served
    fake.fault = content("it timed out, it timed out")
    checks = ask(client, TINY)
    assert UNASKED not in {check.check for check in checks}


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


@pytest.mark.parametrize("number", ["1e400", "Infinity", "NaN"])
def test_a_number_that_is_none_is_an_answer_of_another_shape(number: str) -> None:
    found = attempt(lambda: ProbeResult(str(int(json.loads(number)))))
    assert "another shape" in found.problem
