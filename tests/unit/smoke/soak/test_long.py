"""Long answers: sound ones pass; where one decays, loses the thread or changes, that is said."""

from __future__ import annotations

from typing import Any

from builder.smoke.client import Client
from builder.smoke.soak.long import LongAnswers, longest
from tests.unit.fake_openai import Fake, Message
from tests.unit.smoke.probes.asking import ABLE, TINY, served

__all__ = ["served"]  # the fixture


def test_the_embedded_model_gives_its_longest_answer_again_and_again(
        served: tuple[Client, Fake]) -> None:
    asked = LongAnswers(TINY)
    served[1].counts = True
    assert longest().name == "text: long answer, streamed"
    for _ in range(2):
        found = asked.ask(served[0])
        assert found.problem == ""
        assert "tokens" in found.answer


def test_an_answer_that_changes_says_after_how_many_tokens(served: tuple[Client, Fake]) -> None:
    client, fake = served
    asked, fake.counts = LongAnswers(TINY), True
    assert not asked.ask(client).problem

    def fault(message: Message, body: dict[str, Any]) -> None:
        message["content"] = message["content"][:1000] + "and so on."
    fake.fault = fault
    assert "after about 1000 of 1010 tokens it is another answer" in asked.ask(client).problem


def test_a_general_model_writes_and_is_asked_a_fact_afterwards(served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.counts = True
    found = LongAnswers(ABLE).ask(client)
    assert (found.problem, found.answer) == ("", "1024 tokens")


def test_a_general_model_that_loses_the_thread_is_found(served: tuple[Client, Fake]) -> None:
    client, fake = served

    def fault(message: Message, body: dict[str, Any]) -> None:
        if len(body["messages"]) > 1:
            message["content"] = "I do not know."
    fake.fault = fault
    assert "asked a fact after 8 tokens of answer: expected 'Paris'" in LongAnswers(ABLE).ask(
        client).problem
