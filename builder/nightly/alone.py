"""One night at a time in a checkout: two would renew the same locks and put back each other's."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder.errors import UsageError
from builder.files import open_mark


@contextmanager
def alone(folder: Path, root: Path) -> Iterator[None]:
    """Keep another night of the checkout ``root`` away for the block; raises UsageError for one.

    The mark lies in ``folder``. It is the operating system's and goes with the process, however
    that ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / f".{hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]}.at-work"
    with open_mark(mark) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError("another night is at work in this checkout", where=str(root),
                             next_step="wait until it has ended; nothing was changed by this one"
                             ) from error
        yield
