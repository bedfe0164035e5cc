"""Several nodes watched from outside: each follower by itself, since the head does not tell.

vLLM's head answers 200 to ``/health`` after it lost a follower, until somebody asks a question; a
question may then wait for ever. So followers are looked at every few seconds, and where one is gone
all nodes are stopped: that ends the questions, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, RLock, Thread
from types import TracebackType

from builder.engine.client import Container
from builder.errors import EngineError
from builder.smoke.client import Client
from builder.smoke.watch import Watch

EVERY_S = 1.0
GRACE_S = 5  # that a node has to end by itself


class Guard:
    """Looks at the followers from a thread, and stops all nodes where one is gone."""

    def __init__(self, head: Container, followers: Sequence[Watch]) -> None:
        """Take the nodes; the thread runs in a ``with`` block."""
        self.head, self.followers = head, tuple(followers)
        self.lost = ""  # which node, and how it ended
        self._error: EngineError | None = None
        self._turn = RLock()
        self._over, self._told = Event(), Event()
        self._thread = Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Guard:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    @property
    def ended(self) -> bool:
        """Say whether a node was lost, or something was stopped from outside."""
        return bool(self.lost or self._error)

    def look(self) -> str:
        """Look now; return which follower is gone and how it ended, nothing while all live.

        Raises EngineError where one was stopped from outside.
        """
        with self._turn:
            if not self.ended:
                self._look()
            if self._error:
                raise self._error
            return self.lost

    def await_loss(self, within: float) -> str:
        """Wait until a follower is gone; raises as ``look`` does."""
        self._told.wait(within)
        if self._error:
            raise self._error
        return self.lost

    def boxes(self) -> tuple[Container, ...]:
        """Return all nodes."""
        return (self.head, *(follower.box for follower in self.followers))

    def _follow(self) -> None:
        while not self.ended and not self._over.wait(EVERY_S):
            with self._turn:
                if not self.ended:
                    self._look()

    def _look(self) -> None:
        for number, follower in enumerate(self.followers, 1):
            try:
                end = follower.ended()
            except EngineError as error:
                self._error = EngineError(error.what, where=f"node {number} of {error.where}",
                                          next_step=error.next_step)
                end = error.what
            if end:
                self.lost = f"node {number}, a follower: {end}"
                self._told.set()
                self._stop()
                return

    def _stop(self) -> None:
        """Stop all nodes side by side."""
        stops = [Thread(target=box.stop, args=(GRACE_S,), daemon=True) for box in self.boxes()]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()


@dataclass
class NodesWatch(Watch):
    """Follows the head, and knows what became of the followers."""

    guard: Guard = field(kw_only=True)

    def gone(self, client: Client) -> str:
        """Return which node is gone, followers first; nothing while all serve."""
        if self.guard.ended:
            return self.guard.look()
        return self._named(lambda: super(NodesWatch, self).gone(client))

    def _boot_ended(self) -> str:
        if self.guard.ended:
            return self.guard.look() + f' in phase "{self.phases.name}"'
        return self._named(super()._boot_ended)

    def _named(self, head: Callable[[], str]) -> str:
        """Return the follower that is gone and how the head ended; nothing while all serve."""
        try:
            end = head()
        except EngineError:
            if lost := self.guard.look():  # the guard itself stopped the head meanwhile
                return lost
            raise
        return "; ".join(filter(None, (self.guard.look(), end and f"node 0, the head: {end}")))
