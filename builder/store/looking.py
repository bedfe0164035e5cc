"""The store for commands that only look: nothing of it is made, stamped or removed."""

from __future__ import annotations

import fcntl
import os
import weakref
from contextlib import suppress
from pathlib import Path

from builder.files import sha256_file
from builder.locking.lock import LockedWheel
from builder.store.content_store import stamp_place, wheel_place, wrong_size
from builder.store.verification import is_as_hashed


class Looking:
    """The wheels of the store at ``root``, which may be missing; each is hashed once at most."""

    def __init__(self, root: Path) -> None:
        """Keep others from pruning what is there, as ``Store`` does."""
        self.root = root
        self._known: dict[Path, bool] = {}
        with suppress(OSError):
            lock = os.open(root / ".lock", os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_SH)

    def find_wheel(self, wheel: LockedWheel) -> Path | None:
        """Return the wheel's path where its bytes can be trusted; a wrong file stays.

        Raises LockError where the bytes are right and the lock's size is not.
        """
        path = wheel_place(self.root, wheel)
        if not path.is_file() or not self._is_whole(path, wheel.sha256):
            return None
        if (size := path.stat().st_size) != wheel.size:
            raise wrong_size(wheel, size)
        return path

    def _is_whole(self, path: Path, sha256: str) -> bool:
        if path not in self._known:
            self._known[path] = (is_as_hashed(path, stamp_place(self.root, sha256))
                                 or sha256_file(path) == sha256)
        return self._known[path]
