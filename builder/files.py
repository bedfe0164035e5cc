"""Free disk: asked before a stage starts, and named when it runs out on the way."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder import console
from builder.errors import DiskError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NEXT_STEP = "free some disk (`sparkyard cache prune`), or point SPARKYARD_CACHE at a larger one"


def free_bytes(path: Path) -> int:
    """Return the bytes that this user may still write where ``path`` lies or would lie."""
    there = path.absolute()
    while not there.exists():
        there = there.parent
    state = os.statvfs(there)
    return state.f_bavail * state.f_frsize


def require_space(path: Path, needed: int, purpose: str) -> None:
    """Raise DiskError, with both figures, when ``needed`` bytes do not fit where ``path`` is."""
    free = free_bytes(path)
    if needed > free:
        raise DiskError(
            f"not enough disk {purpose}: {console.size(needed)} needed, {console.size(free)} free",
            where=str(path), next_step=_NEXT_STEP)


@contextmanager
def disk_errors(path: Path, purpose: str) -> Iterator[None]:
    """Turn the operating system's "no space left" in the block into a DiskError."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise DiskError(
            f"the disk became full {purpose}: {console.size(free_bytes(path))} free",
            where=str(path), next_step=_NEXT_STEP) from error
