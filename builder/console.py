"""The one way to speak: narration on standard error, documents on standard output.

Standard output carries only what a command was asked for (a table, one JSON document); all
narration goes to standard error, with live progress on a terminal and plain lines elsewhere.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from builder.errors import ConfigError, SparkyardError


class _Pipe(Console):
    """A console whose reader may go away: ``builder.cli`` decides what that means, not rich."""

    def on_broken_pipe(self) -> None:
        """Raise what the system said; rich itself would end the program with status 1."""
        raise BrokenPipeError


OUT = _Pipe(highlight=False, soft_wrap=True)
ERR = _Pipe(stderr=True, highlight=False, soft_wrap=True)
PLAIN_INTERVAL_S = 5.0  # how often a plain progress line is written where there is no terminal

_verbose = os.environ.get("SPARKYARD_VERBOSE", "") not in ("", "0")


def set_verbose(verbose: bool) -> None:
    """Switch the echo of commands and other detail on (``-v``)."""
    global _verbose
    _verbose = _verbose or verbose


def debug(message: str) -> None:
    """Write detail that only ``-v`` shows."""
    if _verbose:
        ERR.print(message, style="dim", markup=False)


def info(message: str) -> None:
    """Write one line of narration."""
    ERR.print(message, markup=False)


def warn(message: str) -> None:
    """Write one line that the user should not miss."""
    ERR.print(f"warning: {message}", style="yellow", markup=False)


def document(value: Any) -> None:
    """Print ``value`` as the one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def out(text: str) -> None:
    """Print the text a command was asked for, unchanged, on standard output."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]],
          *, stderr: bool = False) -> None:
    """Print a small table; a summary of a long run goes to standard error.

    Lines are never folded or cut, so that they can be searched and copied.
    """
    lines = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    console = ERR if stderr else OUT
    if title:
        console.print(title, style="italic", markup=False)
    for number, line in enumerate(lines):
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        console.print(text.rstrip(), style=None if number else "bold", markup=False)


def show_error(error: SparkyardError) -> None:
    """Print one error: what, where, what to do next."""
    ERR.print(f"error: {error.what}", style="bold red", markup=False)
    if isinstance(error, ConfigError):
        for problem in error.problems:
            hint = f"  -> {problem.next_step}" if problem.next_step else ""
            ERR.print(f"  {problem.where}: {problem.what}{hint}", markup=False)
    elif error.where:
        ERR.print(f"  where: {error.where}", markup=False)
    if error.next_step:
        ERR.print(f"  next:  {error.next_step}", markup=False)


def size(count: float) -> str:
    """Write a number of bytes for people: ``1.6 GB`` (powers of ten, as disks do)."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"


def seconds(count: float) -> str:
    """Write a duration for people: ``3.2 s``, ``4 min 05 s``."""
    if count < 60:
        return f"{count:.1f} s"
    return f"{int(count // 60)} min {int(count % 60):02d} s"


class Meter:
    """Progress of one piece of long work, in some unit; see ``progress``."""

    def __init__(self, title: str, total: float | None, live: Progress | None,
                 unit: str = "bytes") -> None:
        """Start at zero of ``total`` (None where it is unknown)."""
        self.title, self.total, self.unit, self.done = title, total, unit, 0.0
        self._live = live
        self._task: TaskID | None = live.add_task(title, total=total) if live else None
        self._last = time.monotonic()

    def advance(self, amount: float, note: str = "") -> None:
        """Add ``amount``; redraw on a terminal, else write a line now and then."""
        self.done += amount
        if self._live is not None and self._task is not None:
            self._live.update(self._task, completed=self.done,
                              description=f"{self.title} {note}".rstrip())
        elif time.monotonic() - self._last >= PLAIN_INTERVAL_S:
            self._last = time.monotonic()
            info(f"{self.title}: {self._share()} {note}".rstrip())

    def _share(self) -> str:
        if self.total:
            return f"{min(100.0, 100 * self.done / self.total):.0f} %"
        return size(self.done) if self.unit == "bytes" else f"{self.done:.0f} {self.unit}"


@contextmanager
def progress(title: str, total: float | None = None, *, unit: str = "bytes") -> Iterator[Meter]:
    """Show progress of the work in the block; ``unit`` is ``bytes``, or what is counted."""
    if not ERR.is_terminal:
        info(f"{title} …")
        yield Meter(title, total, None, unit)
        return
    columns = [TextColumn("{task.description}"), BarColumn()]
    extra = ([DownloadColumn(), TransferSpeedColumn()] if unit == "bytes"
             else [TextColumn("{task.completed:.0f} " + unit)])
    with Progress(*columns, *extra, TimeElapsedColumn(), console=ERR, transient=True) as live:
        yield Meter(title, total, live, unit)
