"""Questions at the same moment: really together, in order, and cut off without waiting."""

from __future__ import annotations

from threading import Barrier, Event

import pytest

from builder.smoke.probes.at_once import at_once


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
        done.append(number)

    with pytest.raises(ValueError, match="no"):
        at_once(ask, range(4))
    assert sorted(done) == [1, 2, 3]


def test_an_interruption_waits_for_nobody() -> None:
    never, asked = Event(), Event()

    def ask(number: int) -> None:
        if number == 0:
            asked.wait(30)
            raise KeyboardInterrupt
        asked.set()
        never.wait(30)

    with pytest.raises(KeyboardInterrupt):
        at_once(ask, range(2))
    assert not never.is_set()  # it came back while the other still waited
    never.set()
