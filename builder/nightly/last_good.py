"""The last good lock, kept under a second name: putting it back needs no room on a full disk."""

from __future__ import annotations

import os
from pathlib import Path

from builder.errors import DiskError
from builder.files import write_bytes
from builder.limits import LOCK_BYTES, read_file
from builder.locking.sums import SUMS, record_sum
from builder.removal import remove_file


class LastGood:
    """A lock as it was before the night; nothing where there was none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data = read_file(path, LOCK_BYTES, "lock") if path.exists() else None
        self._second_name(path)
        self._second_name(path.with_name(SUMS))

    def restore(self) -> None:
        """Put the lock back; a first lock that fails stays to be looked at."""
        if self._data is None:
            return
        kept = _kept(self._path)
        if kept.exists():
            kept.replace(self._path)
        else:
            write_bytes(self._path, self._data)
        try:
            record_sum(self._path)
        except (OSError, DiskError):
            _kept(self._path.with_name(SUMS)).replace(self._path.with_name(SUMS))

    def forget(self) -> None:
        """Remove the second names."""
        for path in (self._path, self._path.with_name(SUMS)):
            remove_file(_kept(path), path.parent)

    def _second_name(self, path: Path) -> None:
        """Give a file a second name, where the file system has such; no byte is copied."""
        remove_file(_kept(path), path.parent)
        if path.exists():
            try:
                os.link(path, _kept(path))
            except OSError:
                return


def _kept(path: Path) -> Path:
    return path.with_name(f".{path.name}.good")
