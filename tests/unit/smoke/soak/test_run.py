"""A soak as a whole against the fake server, a minute being half a second: quiet, and red."""

from __future__ import annotations

from typing import Any, cast

import pytest

from builder.errors import EngineError
from builder.record.check import Check, Status
from builder.smoke.client import Client
from builder.smoke.soak import run
from builder.smoke.soak.run import GOES_ON, IDLE, MEMORY, soak
from builder.smoke.watch import Watch
from tests.unit.fake_openai import Fake
from tests.unit.smoke.probes.asking import TINY, content, served
from tests.unit.smoke.soak.test_samples import STATUS, Box

__all__ = ["served"]  # the fixture


class Watched:
    """A watch over a container that lives until it is told to be gone."""

    def __init__(self) -> None:
        self.box, self.end = Box(STATUS), ""

    def gone(self, client: Client) -> str:
        return self.end


class Growing(Box):
    """A container that holds more at each look."""

    held = 100

    def exec(self, command: list[str], **options: Any) -> Any:
        self.held += 100
        self.answer = f"RssAnon:\t{self.held * 1024} kB\ncomplete\n"
        return super().exec(command, **options)


def soaked(client: Client, watch: Watched | None = None, minutes: float = 4,
           minute_s: float = 0.5) -> dict[str, Check]:
    told: list[Check] = []
    soak(cast(Watch, watch or Watched()), client, TINY, minutes, told.append, minute_s=minute_s)
    return {check.check: check for check in told}


def test_a_sound_server_passes_and_each_minute_is_told(
        served: tuple[Client, Fake], capsys: pytest.CaptureFixture[str]) -> None:
    checks = soaked(served[0], minute_s=1.0)
    assert {check.status for check in checks.values()} == {Status.PASS}, checks
    assert set(checks) == {GOES_ON, IDLE, MEMORY, "soak: short answers", "soak: long answers",
                           "soak: cancelled streams", "soak: long contexts",
                           "soak: tool calls, streamed at once"}
    said = capsys.readouterr().err
    assert "minute 1: " in said
    assert "minute 3: " in said


def test_memory_that_grows_is_found(served: tuple[Client, Fake]) -> None:
    watch = Watched()
    watch.box = Growing("")
    found = soaked(served[0], watch)[MEMORY]
    assert found.status is Status.FAIL
    assert found.detail.startswith("from minute ")


def test_a_kv_cache_that_stays_full_is_found(served: tuple[Client, Fake]) -> None:
    served[1].held = 0.3
    found = soaked(served[0], minutes=2)[IDLE]
    assert found.status is Status.FAIL
    assert "vllm:kv_cache_usage_perc is 0.3, though nothing is asked" in found.detail


def test_counters_that_freeze_end_the_soak(served: tuple[Client, Fake]) -> None:
    served[1].frozen = True
    checks = soaked(served[0], minutes=1000)
    assert "the counters of tokens stand still" in checks[GOES_ON].detail
    assert checks[IDLE].status is Status.NOT_APPLICABLE


def test_answers_that_are_wrong_are_found(served: tuple[Client, Fake]) -> None:
    served[1].fault = content("It is somewhere.")
    checks = soaked(served[0], minutes=1)
    assert checks["soak: short answers"].status is Status.FAIL
    assert checks[GOES_ON].status is Status.PASS


def test_a_death_ends_the_soak(served: tuple[Client, Fake]) -> None:
    watch = Watched()
    watch.end = "the engine died: a reason"
    found = soaked(served[0], watch, minutes=1000)[GOES_ON]
    assert "the engine died: a reason" in found.detail


def test_a_container_that_was_stopped_from_outside_is_no_verdict(
        served: tuple[Client, Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(self: Watched, client: Client) -> str:
        raise EngineError("stopped from outside", next_step="run it again")
    monkeypatch.setattr(Watched, "gone", stopped)
    left: list[int] = []
    monkeypatch.setattr(run.Load, "leave", lambda self: left.append(1))
    with pytest.raises(EngineError, match="from outside"):
        soaked(served[0], minutes=1)
    assert left
