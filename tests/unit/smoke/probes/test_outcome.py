"""Answers as text; questions at the same moment: together, in order, cut off without waiting."""

from __future__ import annotations

import time
from threading import Barrier, Event

import pytest

from builder.smoke.probes.outcome import answer_text, at_once


def test_all_are_asked_together_and_come_back_in_order() -> None:
    barrier = Barrier(8, timeout=30)

    def ask(number: int) -> int:
        barrier.wait()  # breaks unless all eight are on the way
        return number * 2

    assert at_once(ask, range(8)) == [number * 2 for number in range(8)]


def test_a_failure_is_raised_when_the_others_are_done() -> None:
    barrier, failed, done = Barrier(4, timeout=30), Event(), []

    def ask(number: int) -> None:
        barrier.wait()  # all are on the way
        if number == 0:
            failed.set()
            raise ValueError("no")
        failed.wait(30)
        time.sleep(0.2)  # long after the failure: who did not wait would be back by now
        done.append(number)

    with pytest.raises(ValueError, match="no"):
        at_once(ask, range(4))
    assert sorted(done) == [1, 2, 3]


def test_an_interruption_waits_for_nobody() -> None:
    """The other question is still unanswered when the interruption has come through."""
    answered, asked, release = Event(), Event(), Event()

    def ask(number: int) -> None:
        if number == 0:
            asked.wait(30)
            raise KeyboardInterrupt
        asked.set()
        release.wait(10)
        answered.set()

    try:
        with pytest.raises(KeyboardInterrupt):
            at_once(ask, range(2))
        assert asked.is_set()
        assert not answered.is_set(), "the interruption waited for an answer"
    finally:
        release.set()


@pytest.mark.parametrize(("message", "text"), [
    ({"content": "Paris"}, "Paris"), ({"content": None}, '""'),
    ({"content": "", "tool_calls": [{"id": "ä"}]}, '[{"id": "ä"}]')])
def test_an_answer_as_text(message: dict[str, object], text: str) -> None:
    assert answer_text({"choices": [{"message": message}]}) == text
