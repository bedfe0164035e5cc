"""Who ended a container: only one that ended by itself says something about its image."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, cast

import pytest

from builder.engine.client import Container, Engine, RunSpec
from builder.engine.container import ContainerState
from builder.errors import EngineError
from builder.limits import TooMuchError
from builder.smoke import container_end
from builder.smoke.container_end import ContainerEnd, LifeEvents, find_end, running

GONE = "the connection breaks"


class Box:
    """Stands in for a container and what the engine tells of it, until it is removed."""

    spec = RunSpec("r/cpu:cpu")

    def __init__(self, *told: str, status: str = "exited", code: int = 1,
                 memory: bool = False) -> None:
        self.is_now = ContainerState(status, code, memory, "")
        self.told, self.removed, self.all_told = told, Event(), Event()

    def state(self) -> ContainerState:
        return self.is_now

    def follow_events(self) -> Iterator[str]:
        for action in self.told:
            if action == GONE:
                raise EngineError("the connection to the Docker engine broke")
            yield action
        self.all_told.set()
        self.removed.wait(30)
        yield "destroy"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_end, "DIE_WITHIN_S", 0.2)
    monkeypatch.setattr(container_end, "KILL_AFTER_DIE_S", 0.0)


def end_of(box: Box) -> ContainerEnd | None:
    events = LifeEvents(cast(Container, box))
    if GONE not in box.told:
        assert box.all_told.wait(30)
    try:
        return find_end(cast(Container, box), events)
    finally:
        box.removed.set()
        events.join()


@pytest.mark.parametrize(("box", "end"), [
    (Box("start", status="running"), None),
    (Box("start", "die"), ContainerEnd(1, out_of_memory=False)),
    (Box("start", "die", code=0), ContainerEnd(0, out_of_memory=False)),
    (Box("start", "oom", "die", code=137, memory=True), ContainerEnd(137, out_of_memory=True))])
def test_an_end_of_its_own_is_a_finding(box: Box, end: ContainerEnd | None) -> None:
    assert end_of(box) == end


def test_one_ended_by_signal_nine_was_killed() -> None:
    assert ContainerEnd(137, out_of_memory=False).killed
    assert not ContainerEnd(1, out_of_memory=True).killed


@pytest.mark.parametrize("told", [(), ("start",)])
def test_nothing_follows_from_an_event_that_does_not_come(told: tuple[str, ...]) -> None:
    """The state says "exited" before ``die`` is told, and an engine may never tell it."""
    assert end_of(Box(*told)) == ContainerEnd(1, out_of_memory=False)


@pytest.mark.parametrize(("box", "text"), [
    (Box("start", GONE, code=255), "engine went away .*: the connection to the Docker engine"),
    (Box("start", "kill", "die", code=0), "stopped from outside"),
    (Box("start", "kill", "die", code=137), "stopped from outside"),
    (Box("start", "kill", status="running"), "stopped from outside"),
    (Box("start", status="paused"), "is paused")])
def test_an_end_from_outside_is_none(box: Any, text: str) -> None:
    with pytest.raises(EngineError, match=text):
        end_of(box)


def test_too_many_events_end_nothing() -> None:
    class Noisy(Box):
        def follow_events(self) -> Iterator[str]:
            yield "start"
            self.all_told.set()
            raise TooMuchError("more than 64 MB")

    assert end_of(Noisy("start")) == ContainerEnd(1, out_of_memory=False)


def test_a_kill_that_is_told_late_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is asked first, and the engine tells of the kill a moment later."""
    monkeypatch.setattr(container_end, "DIE_WITHIN_S", 30.0)
    asked = Event()

    class Late(Box):
        def state(self) -> ContainerState:
            asked.set()
            return super().state()

        def follow_events(self) -> Iterator[str]:
            asked.wait(30)
            yield from super().follow_events()

    box = Late("start", "kill", "die", code=0)
    events = LifeEvents(cast(Container, box))
    with pytest.raises(EngineError, match="stopped from outside"):
        find_end(cast(Container, box), events)
    box.removed.set()


def test_a_container_is_followed_until_it_is_removed() -> None:
    box = Box("start", status="running")

    class OneBox:
        @contextmanager
        def start(self, spec: RunSpec) -> Iterator[Box]:
            yield box
            box.removed.set()

    with running(cast(Engine, OneBox()), box.spec) as (mine, events):
        assert cast(Any, mine) is box
        assert events._thread.is_alive()
    assert not events._thread.is_alive()
