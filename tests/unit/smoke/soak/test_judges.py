"""Each judge of a soak: where it fires, with its minute, and where it stays quiet."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from builder.smoke.soak.judges import (
    Fault,
    after_warm_up,
    decayed,
    differs,
    frozen,
    leaking,
    slope,
)
from builder.smoke.soak.samples import Sample
from tests.unit.fake_openai import GENERAL

MIB = 1024 * 1024
ESSAY = GENERAL["handbook of sailing"]


def samples(work: Sequence[float | None], *, busy: int = 3, health: int = 200,
            answered: int = 0) -> list[Sample]:
    """One look every tenth of a minute."""
    return [Sample(number / 10, health, busy, answered * number, value and value / 2,
                   value and value / 2) for number, value in enumerate(work)]


def says(fault: Fault | None) -> str:
    return str(fault)


MOVING = [float(number) for number in range(1, 21)]


def test_a_server_that_moves_is_not_frozen() -> None:
    assert frozen(samples(MOVING), 1) is None
    assert frozen([], 1) is None


def test_a_pause_in_which_nothing_is_asked_is_no_freeze() -> None:
    assert frozen(samples([5.0] * 40, busy=0), 1) is None


def test_a_server_that_hangs_behind_a_green_health_is_found_with_its_minute() -> None:
    fault = frozen(samples([*MOVING, *[20.0] * 12]), 1)
    assert fault
    assert fault.minute == pytest.approx(1.9)
    assert "no token is read or written, 3 requests wait" in fault.what
    assert "/health answers 200" in fault.what


def test_a_hang_shorter_than_the_limit_is_none() -> None:
    assert frozen(samples([*MOVING, *[20.0] * 8, 21.0]), 1) is None


def test_counters_that_stand_still_while_answers_come_are_named_as_such() -> None:
    assert "stand still at 20, though" in says(frozen(
        samples([*MOVING, *[20.0] * 12], answered=2), 1))


def test_an_answer_that_was_on_its_way_when_all_stood_still_is_no_lie_of_the_counters() -> None:
    hung = samples([*MOVING, *[20.0] * 12])
    late = [replace(one, answered=one.minute >= 2.2) for one in hung]
    assert "no token is read or written" in says(frozen(late, 1))


def test_metrics_or_health_that_do_not_answer_are_named_as_such() -> None:
    assert "/metrics does not answer" in says(frozen(samples([1.0, *[None] * 12]), 1))
    assert "/health answers nothing" in says(frozen(samples(MOVING, health=0), 1))


def series(grow: float, *, minutes: int = 10, noise: float = 4.0, fill: float = 300.0,
           until: float = 1e9) -> list[tuple[float, float]]:
    """Return a server of 900 MiB that fills up in its first minute and grows by that many MiB."""
    dice = random.Random(7)
    points = []
    for number in range(minutes * 12):
        at = number / 12
        held = 900 + fill * min(1, at) + grow * min(at, until) + dice.uniform(-noise, noise)
        points.append((at, held * MIB))
    return points


@pytest.mark.parametrize("points", [
    series(0), series(2), series(0, noise=60), series(0, minutes=2),
    series(40, until=5), [(at, value + 500 * MIB * (number % 9 == 0))
                          for number, (at, value) in enumerate(series(0))]],
    ids=["flat", "2 MiB a minute", "noisy", "short", "ends after half", "spikes"])
def test_memory_that_does_not_go_on_growing_is_no_leak(points: list[tuple[float, float]]) -> None:
    assert after_warm_up(points)
    assert leaking(points) is None


@pytest.mark.parametrize("grow", [14, 40, 400])
def test_memory_that_goes_on_growing_is_a_leak_with_its_minute(grow: float) -> None:
    fault = leaking(series(grow))
    assert fault
    begin = 10 * 0.34
    assert fault.minute == pytest.approx(begin + 64 / grow, abs=0.8)
    assert "goes on growing" in fault.what


def test_too_few_looks_are_not_judged() -> None:
    assert after_warm_up([]) == []
    assert after_warm_up(series(400)[:15]) == []
    assert leaking(series(400)[:15]) is None


def test_the_slope_is_deaf_to_outliers() -> None:
    points = [(float(at), 3.0 * at) for at in range(1000)]
    points[500] = (500.0, 1e12)
    assert slope(points) == pytest.approx(3.0)
    assert slope([]) == 0.0


def test_a_sound_long_answer_does_not_decay() -> None:
    assert decayed(ESSAY, 4000) == ""
    assert decayed("", 0) == ""
    assert decayed("Paris.", 2) == ""


@pytest.mark.parametrize(("rest", "words"), [
    (" and the sea" * 300, "loop"), ("!!!!!!!!", "logits"), (" <|tool_call>", "leaks"),
    ("\ufffd", "U\\+FFFD")])
def test_where_a_long_answer_begins_to_decay_is_said(rest: str, words: str) -> None:
    text = ESSAY[:4500] + rest
    found = decayed(text, 1000)
    assert words.replace("\\", "") in found
    at = int(found.split("about ")[1].split()[0])
    assert at == pytest.approx(1000 * 4500 / len(text), abs=1000 * 1500 / len(text))


def test_another_answer_than_before_says_from_where_on() -> None:
    assert differs("the same", "the same", 8) == ""
    assert differs("0123456789", "01234x6789", 10).startswith("after about 5 of 10 tokens")
    assert differs("0123", "0123456789", 4).startswith("after about 4 of 4 tokens")
