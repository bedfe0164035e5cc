"""The mixed load: who asks what, how a round ends, and what is kept of wrong answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle, islice
from threading import Event
from typing import Any

from builder.record.check import Status
from builder.smoke.client import Client
from builder.smoke.probes.outcome import ProbeResult
from builder.smoke.soak.load import (
    ANSWERS,
    CANCELLED,
    CONTEXTS,
    LONG,
    PICTURES,
    TOOLS,
    Lane,
    Load,
    Question,
    Tally,
    lanes,
)
from tests.unit.smoke.probes.asking import ABLE, TINY

CLIENT = Client(9, "tiny")  # nobody is asked


def kinds(found: list[Lane]) -> set[str]:
    return {question.kind for lane in found for question in islice(lane.questions, 30)}


def test_a_model_is_asked_what_it_is_able_to() -> None:
    assert kinds(lanes(TINY)) == {ANSWERS, TOOLS, CONTEXTS, LONG, CANCELLED}
    assert PICTURES in kinds(lanes(ABLE))
    assert sum(lane.long for lane in lanes(ABLE)) == 1


def test_lanes_do_not_begin_with_the_same_question() -> None:
    tools = [next(lane.questions).name for lane in lanes(TINY)
             if next(lane.questions).kind == TOOLS]
    assert len(set(tools)) == len(tools) == 3


def asking(*results: ProbeResult) -> tuple[Load, Callable[[Client], ProbeResult]]:
    come = iter(results)

    def ask(_: Client) -> ProbeResult:
        time.sleep(0.001)
        return next(come, ProbeResult("right"))
    question = Question(ANSWERS, "a fact", ask)
    return Load(CLIENT, [Lane(cycle([question]))], lambda: 2.5), ask


def round_of(load: Load) -> Tally:
    load.begin()
    while load.answered < 5:
        time.sleep(0.01)
    load.call_off()
    while load.working():
        time.sleep(0.01)
    assert load.busy == 0
    return load.tallies[ANSWERS]


def test_right_answers_pass() -> None:
    check = round_of(asking()[0]).check(ANSWERS)
    assert (check.check, check.status) == ("soak: short answers", Status.PASS)
    assert "all" in check.detail


def test_a_wrong_answer_is_asked_again_and_timed() -> None:
    wrong = ProbeResult("no", "expected 'Paris'")
    check = round_of(asking(ProbeResult("yes"), wrong, wrong)[0]).check(ANSWERS)
    assert check.status is Status.FAIL
    assert check.detail.startswith("from minute 2.5 on, after 2 answers and 0 tokens")
    assert "a fact: 'no'; expected 'Paris'; asked again: expected 'Paris'" in check.detail


def test_an_answer_that_is_right_again_is_flaky() -> None:
    check = round_of(asking(ProbeResult("no", "wrong"))[0]).check(ANSWERS)
    assert check.status is Status.FLAKY
    assert "right when it was asked again" in check.detail


def test_a_kind_without_an_answer_is_not_judged() -> None:
    assert Tally().check(LONG).status is Status.NOT_APPLICABLE


def test_a_round_waits_for_its_long_answer_and_the_others_go_on_meanwhile() -> None:
    done, short = Event(), list[int]()

    def slow(_: Client) -> ProbeResult:
        done.wait(10)
        return ProbeResult("long")

    def quick(_: Client) -> ProbeResult:
        time.sleep(0.001)
        short.append(1)
        return ProbeResult("short")
    load = Load(CLIENT, [Lane(cycle([Question(ANSWERS, "short", quick)])),
                         Lane(cycle([Question(LONG, "long", slow)]), long=True)], lambda: 0.0)
    load.begin()
    load.call_off()
    before = len(short)
    while len(short) < before + 5:
        time.sleep(0.01)
    assert load.working()
    done.set()
    while load.working():
        load.call_off()
        time.sleep(0.01)
    assert load.tallies[LONG].right == 1


def test_what_is_open_when_a_soak_is_left_is_not_kept() -> None:
    done = Event()

    def stuck(_: Client) -> ProbeResult:
        done.wait(10)
        return ProbeResult("", "the connection broke")
    questions: Any = cycle([Question(ANSWERS, "stuck", stuck)])
    load = Load(CLIENT, [Lane(questions)], lambda: 0.0)
    load.begin()
    while not load.busy:
        time.sleep(0.01)
    load.leave()
    done.set()
    while load.working():
        time.sleep(0.01)
    assert load.tallies == {}
