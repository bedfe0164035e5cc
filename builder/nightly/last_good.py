"""The last good lock, kept under a second name: putting it back needs no room on a full disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from builder.errors import DiskError
from builder.limits import LOCK_BYTES, read_file
from builder.locking.sums import SUMS, is_as_written, write_summed
from builder.removal import remove_file


class LastGood:
    """A lock as it was before the night; nothing where there was none.

    What a night has locked and not tested, because it was killed, is taken back first, unless
    somebody has changed the lock since.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if self._is_untested():
            self._data: bytes | None = read_file(_kept(path), LOCK_BYTES, "lock")
            self.restore()
        self.forget()
        self._data = read_file(path, LOCK_BYTES, "lock") if path.exists() else None
        for file in (path, path.with_name(SUMS)):
            _second_name(file, _kept(file))

    def untested(self) -> None:
        """Mark the present lock as one that is to be tested, until ``restore`` or ``forget``."""
        _second_name(self._path, _tried(self._path))

    def restore(self) -> None:
        """Put the lock back; a first lock that fails stays to be looked at."""
        if self._data is None:
            return
        try:  # killed at any moment, lock and sum agree
            write_summed(self._path, self._data)
        except (OSError, DiskError):
            if not _kept(self._path).exists():
                raise
            _kept(self._path).replace(self._path)
            sums = self._path.with_name(SUMS)
            if _kept(sums).exists():
                _kept(sums).replace(sums)

    def forget(self) -> None:
        """Remove the second names."""
        for name in (_tried(self._path), _kept(self._path), _kept(self._path.with_name(SUMS))):
            remove_file(name, self._path.parent)

    def _is_untested(self) -> bool:
        """Say whether the lock is still the very file that a killed night wrote."""
        tried = _tried(self._path)
        return (tried.exists() and _kept(self._path).exists() and self._path.exists()
                and tried.samefile(self._path) and is_as_written(self._path))


def _second_name(path: Path, name: Path) -> None:
    """Give a file a second name, where the file system has such; no byte is copied."""
    if path.exists():
        with suppress(OSError):
            os.link(path, name)


def _kept(path: Path) -> Path:
    return path.with_name(f".{path.name}.good")


def _tried(path: Path) -> Path:
    return path.with_name(f".{path.name}.untested")
