"""The one way to the terminal: narration on standard error, results on standard output.

Standard output carries only what a command was asked for (a table, one JSON document); all
narration goes to standard error, with live progress on a terminal and plain lines elsewhere.

Whatever is printed may hold foreign text: a model's answer, a file name, a server's message. So
every line is cleaned here, in one place: control characters are written out, and secrets are
removed (``builder.text``).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

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
from builder.text import is_unseen, redact, unbroken, visible


class ReaderGoneError(Exception):
    """Whoever read our output has closed it (``| head``). A pipe to another program is no case."""


class _Pipe(Console):
    """A console whose reader may go away: ``builder.cli`` decides what that means, not rich."""

    def on_broken_pipe(self) -> None:
        """Raise our own error; rich itself would end the program with status 1."""
        raise ReaderGoneError


# No emoji: `vllm:v:1` is an image's name, and not a hand.
OUT = _Pipe(highlight=False, soft_wrap=True, emoji=False)
ERR = _Pipe(stderr=True, highlight=False, soft_wrap=True, emoji=False)
PLAIN_INTERVAL_S = 5.0  # how often a plain progress line is written where there is no terminal
TABLE_WIDTH = 160  # of a table in a file or a CI log; on a terminal no cell is cut
LEAST_CELL = 72  # room for a digest, which is worth nothing when it is cut

_verbose = os.environ.get("SPARKYARD_VERBOSE", "") not in ("", "0")


def set_verbose(verbose: bool) -> None:
    """Switch the echo of commands and other detail on (``-v``)."""
    global _verbose
    _verbose = _verbose or verbose


def clean(text: str) -> str:
    """Return ``text`` as it may be shown: no control characters but newline and tab, no secrets."""
    return visible(redact(text))


def debug(message: str) -> None:
    """Write detail that only ``-v`` shows."""
    if _verbose:
        _narrate(clean(message), "dim")


def info(message: str) -> None:
    """Write narration, a line or a few."""
    _narrate(clean(message))


def warn(message: str) -> None:
    """Write one line that the user should not miss."""
    _narrate(clean(_below(f"warning: {message}")), "yellow")


def document(value: Any) -> None:
    """Print ``value``, without secrets, as the one JSON document on standard output.

    Control characters are escaped, so that a program reads the same text and a terminal is safe.
    """
    text = json.dumps(_redacted(value), indent=2, ensure_ascii=False)
    _write(sys.stdout, "".join(json.dumps(char)[1:-1] if is_unseen(char) and char != "\n" else char
                               for char in text) + "\n")


def out(text: str) -> None:
    """Print the text that a command was asked for on standard output."""
    _write(sys.stdout, clean(text if text.endswith("\n") else text + "\n"))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]],
          *, stderr: bool = False) -> None:
    """Print a small table; a summary of a long run goes to standard error.

    On a terminal lines are never folded or cut, so that they can be searched and copied. Elsewhere
    a table is at most ``TABLE_WIDTH`` wide: its widest cells are cut, and a last line says so.
    """
    lines = [[" ".join(clean(str(cell)).splitlines()) for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if not (ERR if stderr else OUT).is_terminal:
        widths = _narrowed(widths)
    write = _narrate if stderr else _result
    if title:
        write(clean(title), "italic")
    cut = False
    for number, line in enumerate(lines):
        cut |= any(len(cell) > width for cell, width in zip(line, widths, strict=True))
        text = "  ".join(_fitted(cell, width) for cell, width in zip(line, widths, strict=True))
        write(text.rstrip(), None if number else "bold")
    if cut:
        write("(what ends in … was cut to fit; a terminal or JSON output shows all of it)")


def show_error(error: SparkyardError) -> None:
    """Print one error: what, where, what to do next."""
    _narrate(clean(_below(f"error: {error.what}")), "bold red")
    if isinstance(error, ConfigError):
        for problem in error.problems:
            hint = f"  -> {problem.next_step}" if problem.next_step else ""
            _narrate(clean(f"  {unbroken(f'{problem.where}: {problem.what}{hint}')}"))
    elif error.where:
        _narrate(clean(f"  where: {unbroken(error.where)}"))
    if error.next_step:
        _narrate(clean(f"  next:  {unbroken(error.next_step)}"))


def _result(text: str, style: str | None = None) -> None:
    OUT.print(text, style=style, markup=False)


def _narrate(text: str, style: str | None = None) -> None:
    """Write to standard error; one that takes nothing more (a full disk) changes no exit code."""
    try:
        ERR.print(text, style=style, markup=False)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _below(text: str) -> str:
    """Indent every line but the first: none of a foreign text stands where ours begin."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(line if line[:1].isspace() or not line else f"  {line}"
                               for line in rest)])


def flush() -> None:
    """Hand on what standard output still buffers; raises ReaderGoneError."""
    _write(sys.stdout, "")


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError as error:
        raise ReaderGoneError from error


def _redacted(value: Any) -> Any:
    """Return a JSON value with ``redact`` applied to every text in it."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {_redacted(key): _redacted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item) for item in value]
    return value


def _narrowed(widths: Sequence[int]) -> list[int]:
    """Return ``widths`` made to fit ``TABLE_WIDTH`` by taking from the widest columns."""
    fitting = list(widths)
    gaps = 2 * (len(fitting) - 1)
    while sum(fitting) + gaps > TABLE_WIDTH and max(fitting) > LEAST_CELL:
        fitting[fitting.index(max(fitting))] -= 1
    return fitting


def _fitted(cell: str, width: int) -> str:
    return cell.ljust(width) if len(cell) <= width else cell[:width - 2] + " …"


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
        self._task: TaskID | None = live.add_task(clean(title), total=total) if live else None
        self._last = time.monotonic()

    def advance(self, amount: float, note: str = "") -> None:
        """Add ``amount``; redraw on a terminal, else write a line now and then."""
        self.done += amount
        if self._live is not None and self._task is not None:
            self._live.update(self._task, completed=self.done,
                              description=clean(f"{self.title} {note}".rstrip()))
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
    columns = [TextColumn("{task.description}", markup=False), BarColumn()]
    extra = ([DownloadColumn(), TransferSpeedColumn()] if unit == "bytes"
             else [TextColumn("{task.completed:.0f} " + unit, markup=False)])
    with Progress(*columns, *extra, TimeElapsedColumn(), console=ERR, transient=True) as live:
        yield Meter(title, total, live, unit)
