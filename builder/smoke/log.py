"""A container's log, followed while it grows."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress

from builder.engine.client import Container
from builder.limits import TooMuchError

UNREAD = 1000  # lines that wait for a reader after the boot; older ones are in ``lines`` alone
LINE = 65_536  # characters of one line that are kept: a longer one is no text for people


class Log:
    """The server's log: kept, and followed by a thread."""

    def __init__(self, box: Container, lines: list[str] | None = None) -> None:
        """Begin to follow the container's output into ``lines``."""
        self.lines: list[str] = [] if lines is None else lines
        self.bounded = False  # each line of a boot counts; after it nobody may read on for hours
        self._fresh: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._box = box
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            for raw in self._box.logs(follow=True):
                self._keep(raw[:LINE])
        except TooMuchError as error:
            self._keep(f"[sparkyard] the log is no longer followed: {error}")

    def _keep(self, line: str) -> None:
        self.lines.append(line)
        while self.bounded and self._fresh.qsize() >= UNREAD:
            with suppress(queue.Empty):
                self._fresh.get_nowait()
        self._fresh.put(line)

    def fresh(self, wait: float) -> Iterator[str]:
        """Yield the new lines, waiting ``wait`` seconds for the first."""
        try:
            yield self._fresh.get(timeout=wait)
            while True:
                yield self._fresh.get_nowait()
        except queue.Empty:
            return

    def join(self, within: float) -> None:
        """Wait for the last line of a container that has ended."""
        self._thread.join(within)
