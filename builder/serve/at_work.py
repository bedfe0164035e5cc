"""One command at a time changes servers; another says which one is at work."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder.errors import UsageError
from builder.files import open_mark
from builder.limits import SETTINGS_BYTES, read_file

FOLDER, FILE = "serve", "at-work"


@contextmanager
def at_work(cache: Path, verb: str) -> Iterator[None]:
    """Keep other commands from changing servers for the block; raises UsageError if one does.

    The lock is the operating system's: it goes with the process, however that ends.
    """
    folder = cache / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with open_mark(folder / FILE) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another command is at work: {_told(folder / FILE)}", where=str(folder / FILE),
                next_step="wait for it, or end it with Ctrl-C where it runs: its server goes on "
                "starting; then run the same command again") from error
        lock.truncate(0)
        lock.write(json.dumps({"verb": verb, "pid": os.getpid()}))
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)


def who_is_at_work(cache: Path) -> str:
    """Return which command changes servers now; nothing where none does."""
    file = cache / FOLDER / FILE
    try:
        with file.open("r", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _told(file)
    except OSError:
        return ""
    return ""


def _told(file: Path) -> str:
    try:
        document = json.loads(read_file(file, SETTINGS_BYTES, "lock"))
        return f"{document['verb']} (process {int(document['pid'])})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return "its name is not known yet"
