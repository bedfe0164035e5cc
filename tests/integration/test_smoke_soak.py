"""Servers that get worse with time, each found and timed; a minute is three seconds here.

A server that poses as vLLM's stands in for it (``tests/fixtures/posing``): it really allocates what
it leaks, really leaves requests open, and really answers something else.
"""

from __future__ import annotations

import re

import pytest

from builder.engine.client import Engine, RunSpec
from builder.recipes.launch import PORT
from builder.recipes.models import Capabilities
from builder.record.check import Check, Status
from builder.smoke.client import Client
from builder.smoke.container_end import running
from builder.smoke.log import Log
from builder.smoke.readiness import Boot
from builder.smoke.soak.rules import patient
from builder.smoke.soak.run import GOES_ON, IDLE, MEMORY, soak
from builder.smoke.watch import Watch, await_health
from tests.integration.test_smoke_faults import image

pytestmark = pytest.mark.engine
__all__ = ["image"]  # the fixture

TINY = Capabilities(general=False, tools=True, reasoning=True)
SHORT, LONG = "soak: short answers", "soak: long answers"
MINUTE = re.compile(r"from minute (\d+\.\d) on")
MINUTES_S = (3.0, 12.0, 48.0)  # how long a minute is; a slow machine looks too seldom in short ones
PATIENCE = 20  # times the limits within which a starved machine may look like a hang


def soaked(image: str, minutes: float = 2, *, patience: float = PATIENCE,
           memory: bool = False, **faults: int) -> dict[str, Check]:
    """Soak a server with these faults; return its checks by their names.

    Where ``memory`` is asked for and was seen too seldom to be judged, once more with longer
    minutes.
    """
    environment = {f"POSING_{name}": str(value) for name, value in faults.items()}
    spec = RunSpec(image, ("python", "-m", "vllm.entrypoints.openai.api_server", "--port",
                           str(PORT)), env={"POSING_PAUSE": "0.05", **environment}, ports=(PORT,))
    checks: dict[str, Check] = {}
    for minute_s in MINUTES_S:
        checks = {check.check: check for check in _soak(spec, minutes, minute_s, patience)}
        if not memory or checks[MEMORY].status is not Status.NOT_APPLICABLE:
            break
    return checks


def _soak(spec: RunSpec, minutes: float, minute_s: float, patience: float) -> list[Check]:
    told: list[Check] = []
    with running(Engine.connect(), spec) as (box, events):
        watch = Watch(box, events, Log(box), Boot())
        assert watch.boot().status is Status.PASS
        client = Client(box.published_port(PORT), "tiny")
        await_health(client, 60)
        soak(watch, client, TINY, minutes, told.append, minute_s=minute_s,
             limits=patient(patience))
    return told


def red(checks: dict[str, Check]) -> set[str]:
    return {name for name, check in checks.items() if check.status is Status.FAIL}


def minute(check: Check) -> float:
    found = MINUTE.match(check.detail)
    assert found, check
    return float(found[1])


def test_a_sound_server_passes(image: str) -> None:
    checks = soaked(image, 4, memory=True)
    assert {check.status for check in checks.values()} == {Status.PASS}, checks
    assert {GOES_ON, IDLE, MEMORY, SHORT, LONG} <= set(checks)


def test_a_server_that_leaks_is_found_and_timed(image: str) -> None:
    checks = soaked(image, 5, memory=True, LEAKS=30_000_000)
    assert red(checks) == {MEMORY}, checks
    assert minute(checks[MEMORY]) >= 1
    assert "goes on growing" in checks[MEMORY].detail


def test_a_server_that_freezes_behind_a_green_health_is_found_and_timed(image: str) -> None:
    checks = soaked(image, 1000, patience=2, FREEZES=200)
    assert red(checks) == {GOES_ON}, checks
    found = checks[GOES_ON]
    assert minute(found) > 0
    assert "no token is read or written" in found.detail
    assert "/health answers 200" in found.detail


def test_answers_that_decay_after_some_time_are_found_and_timed(image: str) -> None:
    checks = soaked(image, 3, DECAYS=3)
    assert SHORT in red(checks), checks
    assert MEMORY not in red(checks)
    found = checks[SHORT]
    assert minute(found) > 0
    numbers = re.search(r"after (\d+) answers .* (\d+) of (\d+) were wrong", found.detail)
    assert numbers, found
    before, wrong, count = map(int, numbers.groups())
    assert before > 0
    assert 0 < wrong < count


def test_answers_that_decay_after_a_thousand_tokens_are_found_and_timed(image: str) -> None:
    checks = soaked(image, LOOPS=1000)
    assert red(checks) == {LONG}, checks
    assert re.search(r"after about \d+ of 1400 tokens: .*loop", checks[LONG].detail)
