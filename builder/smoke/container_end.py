"""How a container ended: by itself, which is a finding, or from outside, which is none.

The engine's events are followed while the container lives. Only what was seen counts: a ``kill``
was asked for through the engine, a broken connection is an engine that went away. A container that
ended without either ended by itself; no event that is missing ever says anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Thread

from builder.engine.client import Container, Engine, RunSpec
from builder.errors import EngineError
from builder.limits import TooMuchError

KILLED_STATUS = 137  # 128 and the number of the signal
AGAIN = "run the same command again"
DIE_WITHIN_S = 10.0  # the state says "exited" before the event of it comes
KILL_AFTER_DIE_S = 0.5  # a kill is told about when it was done, as is the end that follows
END_WITHIN_S = 10.0  # for the last event of a container that was removed


@dataclass(frozen=True)
class ContainerEnd:
    """The exit status, and whether the container went beyond its own memory limit."""

    status: int
    out_of_memory: bool

    @property
    def killed(self) -> bool:
        """Say whether it was killed by signal 9, by whomever."""
        return self.status == KILLED_STATUS


class LifeEvents:
    """What the engine tells of one container, followed by a thread."""

    def __init__(self, box: Container) -> None:
        """Begin to follow."""
        self._image, self._box = box.spec.image, box
        self._seen: list[str] = []
        self._broken = ""  # why the events can no longer be followed
        self._news = Condition()
        self._thread = Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        broken = ""
        try:
            for action in self._box.follow_events():
                with self._news:
                    self._seen.append(action)
                    self._news.notify_all()
        except EngineError as error:
            broken = error.what
        except TooMuchError:  # that says nothing about how the container ends
            pass
        with self._news:
            self._broken = broken
            self._news.notify_all()

    def raise_if_stopped(self) -> None:
        """Raise EngineError where the container was stopped from outside, or the engine was."""
        with self._news:
            if "kill" in self._seen:
                raise EngineError(
                    "the container was stopped from outside: by `docker stop`, `docker kill` or "
                    "an engine that was shut down", where=self._image, next_step=AGAIN)
            if self._broken:
                raise EngineError(f"the Docker engine went away while the container ran: "
                                  f"{self._broken}", where=self._image, next_step=AGAIN)

    def await_death(self) -> None:
        """Wait for the event of an end that the container's state already shows, or for no more."""
        with self._news:
            told = self._news.wait_for(
                lambda: "die" in self._seen or bool(self._broken), DIE_WITHIN_S)
        if told and not self._broken:
            time.sleep(KILL_AFTER_DIE_S)

    def join(self) -> None:
        """Wait for the last event of a container that was removed."""
        self._thread.join(END_WITHIN_S)


@contextmanager
def running(engine: Engine, spec: RunSpec) -> Iterator[tuple[Container, LifeEvents]]:
    """Run a container in the background for the length of the block, its events followed."""
    events = None
    try:
        with engine.start(spec) as box:
            events = LifeEvents(box)
            yield box, events
    finally:
        if events:
            events.join()


def find_end(box: Container, events: LifeEvents) -> ContainerEnd | None:
    """Return how the container ended by itself; None while it runs.

    Raises EngineError where the image is not to blame, as ``LifeEvents.raise_if_stopped`` does.
    """
    state = box.state()
    if not state.running:
        events.await_death()
    events.raise_if_stopped()
    if state.status == "paused":
        raise EngineError("the container is paused", where=box.spec.image,
                          next_step="leave it alone while it is tested; " + AGAIN)
    return None if state.running else ContainerEnd(state.exit_code, state.out_of_memory)
