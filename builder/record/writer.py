"""A record that grows while its run goes on, so that a run cut off at any moment leaves one.

Nothing secret is kept: passwords in addresses and the values of secret variables are removed from
whatever comes in.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from builder import console
from builder.errors import DiskError, SparkyardError, UsageError
from builder.files import disk_errors
from builder.record.alive import this_process
from builder.record.check import Check
from builder.record.models import Record, next_path, now, write_record
from builder.text import redact

PATH = re.compile(r"(?<![\w.:~-])/(?:[^\s/]+/)+([^\s/]+)")  # an absolute one; its last name stays
SECRET_KEY = re.compile(r"(TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|CREDENTIALS?)$", re.IGNORECASE)
HIDDEN = "***"
BY_USER = "interrupted by the user (Ctrl-C) or by a request to end (SIGTERM)"


class RecordWriter:
    """Writes one record again and again, each time whole and in one step."""

    def __init__(self, folder: Path, record: Record,
                 clock: Callable[[], float] = time.monotonic) -> None:
        """Write the first state of ``record`` under a new name in ``folder``.

        Raises UsageError where nothing can be written at all, DiskError on a full disk.
        """
        self._clock, self._started, self._cache = clock, clock(), folder.parent.absolute()
        self.path = next_path(folder, record)
        self.record: Record = without_secrets(record)
        try:
            self.update(state="running", process=this_process(),
                        log=f"logs/{record.cell}/{self.path.stem}.log")
        except OSError as error:
            raise UsageError(f"the cache folder cannot be written: {error.strerror}",
                             where=str(self.path.parent),
                             next_step="set SPARKYARD_CACHE to a folder that you can write"
                             ) from error

    def add(self, check: Check, **facts: Any) -> None:
        """Keep one more check, and what is known by then; raises DiskError on a full disk."""
        nameless = check.model_copy(update={"detail": without_folders(check.detail, self._cache)})
        self._write({**without_secrets(facts),
                     "checks": (*self.record.checks, without_secrets(nameless))})

    def update(self, **facts: Any) -> None:
        """Keep what is known now, by the names of the record's fields; raises DiskError."""
        self._write(without_secrets(facts))

    def finish(self, **facts: Any) -> Record:
        """Say that the run reached its end, and return the record."""
        self.update(**facts, state="finished", process="")
        return self.record

    def interrupt(self, reason: str) -> None:
        """Say why the run did not reach its end; a full disk is a warning here, not an error."""
        try:
            self.update(state="interrupted", reason=reason, process="")
        except DiskError as error:
            console.warn(f"the record ends at the last check that could be written: {error.what}")

    def _write(self, facts: Mapping[str, Any]) -> None:
        self.record = self.record.model_copy(update={
            **facts, "updated": now(), "seconds": round(self._clock() - self._started, 3)})
        with disk_errors(self.path.parent, "while the record was written"):
            write_record(self.path, self.record)


@contextmanager
def interruptions_recorded(writer: RecordWriter) -> Iterator[RecordWriter]:
    """Whatever ends the block early, the record says so and the user learns where it is."""
    try:
        yield writer
    except BaseException as error:
        writer.interrupt(reason(error))
        console.info(f"the record up to this point ({len(writer.record.checks)} checks): "
                     f"{writer.path}")
        raise


def without_folders(text: str, cache: Path) -> str:
    """Return text without the folders that name a user: the cache, the checkout, the home."""
    for folder, name in ((cache, "CACHE"), (Path.cwd(), "."), (Path.home(), "~")):
        if folder != Path(folder.anchor):
            text = text.replace(str(folder), name)
    return text


def without_secrets(value: Any) -> Any:
    """Return a value of a record with every text in it redacted, however deep it lies."""
    if type(value) is str:  # not an enum that is a string, too
        return redact(value)
    if isinstance(value, BaseModel):
        return value.model_copy(update=without_secrets(
            {name: getattr(value, name) for name in type(value).model_fields}))
    if isinstance(value, Mapping):
        return {without_secrets(key): HIDDEN if _is_secret(key, item) else without_secrets(item)
                for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(without_secrets, value))
    return value


def _is_secret(key: Any, value: Any) -> bool:
    """Say whether a label or a variable is secret by its name: ``HF_TOKEN``."""
    return isinstance(value, str) and bool(value) and bool(SECRET_KEY.search(str(key)))


def reason(error: BaseException) -> str:
    """Say in one line why a run was cut off, without a path or an address of this machine."""
    if isinstance(error, KeyboardInterrupt):
        return BY_USER
    if isinstance(error, SparkyardError):
        return PATH.sub(r"\1", error.what.splitlines()[0])
    return f"an internal error of Sparkyard ({type(error).__name__})"
