"""A record that grows while its run goes on, so that a run cut off at any moment leaves one."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from builder import console
from builder.errors import DiskError, SparkyardError, UsageError
from builder.files import disk_errors
from builder.record.check import Check
from builder.record.models import Record, free_path, now, write_record

OTHER_CACHE = "point SPARKYARD_CACHE at a folder of yours"
PATH = re.compile(r"(?<![\w.:~-])/(?:[^\s/]+/)+([^\s/]+)")  # an absolute one; its last name stays
BY_USER = "interrupted by the user (Ctrl-C) or by a request to end (SIGTERM)"


class RecordWriter:
    """Writes one record again and again, each time whole and in one step."""

    def __init__(self, folder: Path, record: Record,
                 clock: Callable[[], float] = time.monotonic) -> None:
        """Write the first state of ``record`` under a name of its own in ``folder``.

        Raises UsageError where nothing can be written at all, DiskError on a full disk.
        """
        self._clock, self._began, self._cache = clock, clock(), folder.parent.absolute()
        self.path = free_path(folder, record)
        self.record = record.model_copy(
            update={"log": f"logs/{record.cell}/{self.path.stem}.log"})
        try:
            self.note(state="running")
        except OSError as error:
            raise UsageError(f"the cache folder cannot be written: {error.strerror}",
                             where=str(self.path.parent), next_step=OTHER_CACHE) from error

    def add(self, check: Check, **facts: Any) -> None:
        """Keep one more check, and what is known by then; raises DiskError on a full disk."""
        named = check.model_copy(update={"detail": nameless(check.detail, self._cache)})
        self.note(**facts, checks=(*self.record.checks, named))

    def note(self, **facts: Any) -> None:
        """Keep what is known now, by the names of the record's fields; raises DiskError."""
        self.record = self.record.model_copy(update={
            **facts, "updated": now(), "seconds": round(self._clock() - self._began, 3)})
        with disk_errors(self.path.parent, "while the record was written"):
            write_record(self.path, self.record)

    def finish(self, **facts: Any) -> Record:
        """Say that the run reached its end, and return the record."""
        self.note(**facts, state="finished")
        return self.record

    def interrupt(self, reason: str) -> None:
        """Say why the run did not reach its end; a disk that is full is told, not raised."""
        try:
            self.note(state="interrupted", reason=reason)
        except DiskError as error:
            console.warn(f"the record ends at the last check that could be written: {error.what}")


@contextmanager
def kept(writer: RecordWriter) -> Iterator[RecordWriter]:
    """Whatever ends the block, the record says so and the user is told where it is."""
    try:
        yield writer
    except BaseException as error:
        writer.interrupt(reason(error))
        console.info(f"the record is kept up to there ({len(writer.record.checks)} checks): "
                     f"{writer.path}")
        raise


def nameless(text: str, cache: Path) -> str:
    """Return text without the folders that name a user: the cache, the checkout, the home."""
    for folder, name in ((cache, "CACHE"), (Path.cwd(), "."), (Path.home(), "~")):
        if folder != Path(folder.anchor):
            text = text.replace(str(folder), name)
    return text


def reason(error: BaseException) -> str:
    """Say in one line why a run was cut off; no path and no address of the machine is in it."""
    if isinstance(error, KeyboardInterrupt):
        return BY_USER
    if isinstance(error, SparkyardError):
        return PATH.sub(r"\1", error.what.splitlines()[0])
    return f"an unforeseen {type(error).__name__} in Sparkyard itself"
