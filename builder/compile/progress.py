"""The lines that a compile prints, as progress: files done of all, and the time left."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress

from builder import console
from builder.console import Meter

LINE = re.compile(r"#\d+ (?:\d+\.\d+ )?(.*)")  # of BuildKit's plain log
STATUS = re.compile(r"@\[(\d{1,9})/(\d{1,9}) [^\]]*\] (.*)")
NOTE = re.compile(r"@(jobs|killed|step|end) (.*)")


class Progress:
    """Follows one compile; ``done`` of ``total`` files are there."""

    def __init__(self, meter: Meter, clock: Callable[[], float] = time.monotonic, *,
                 asked: bool = False, longest: float = 0) -> None:
        """Show what is seen on ``meter``; ``asked`` says whether the user named the jobs.

        ``longest`` are the seconds of the longest compile, where they are known.
        """
        self._asked, self._longest = asked, longest
        self.done, self.total = 0, 0
        self._meter, self._clock, self._started = meter, clock, clock()

    def line(self, raw: str) -> None:
        """Take one line of the build's log."""
        match = LINE.match(raw)
        text = match[1] if match else raw
        status, note = STATUS.match(text), NOTE.match(text)
        if status:
            self._files(int(status[1]), int(status[2]))
        elif note:
            with suppress(ValueError, LookupError, TypeError, RecursionError):  # a program's own
                self._note(note[1], note[2])

    def _files(self, done: int, total: int) -> None:
        if done <= 1 or total != self.total:  # a new run of ninja, with what was left
            self._started = self._clock() if done <= 1 else self._started
            self.total = total
            self._meter.total = float(total)
        step, self.done = done - self.done, done
        if step > 0:
            self._meter.advance(step, f"{done} of {total} files{self.left()}")

    def left(self) -> str:
        """Return the time left as far as can be told: by the files done so far, or the longest one.

        A file that takes minutes may be among those left.
        """
        if not 0 < self.done < self.total:
            return ""
        seconds = (self._clock() - self._started) / self.done * (self.total - self.done)
        most = f" to {console.seconds(self._longest)}" if self._longest > seconds else ""
        return f", about {console.seconds(seconds)}{most} left"

    def _note(self, kind: str, text: str) -> None:
        if kind == "jobs":
            facts = json.loads(text)
            reason = "as asked" if self._asked else "as the memory allows"
            console.info(f"compiling with {facts['jobs']} of {facts['cores']} cores, {reason}")
        elif kind == "killed":
            facts = json.loads(text)
            self.done = 0
            console.warn(f"a compile was killed for memory with {facts['jobs']} jobs; "
                         f"{facts['next']} fit, trying again")
        elif kind == "step":
            console.debug(f"compile: {text}")
