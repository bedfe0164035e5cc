"""Bytes of unknown origin, read within bounds: no reader of them runs out of memory or time.

A damaged or malicious file can make its reader ask for a table of 2^60 entries, or for the same
bytes again and again. A ``Metered`` stream returns at most what is there, and stops a reader that
asks for more than an honest file needs.
"""

from __future__ import annotations

import os
from typing import BinaryIO

# A call costs as much as this many bytes, so that many small reads end too. Seen in 70 wheels:
# small libraries need up to 260 kB (libcudnn.so.9), large ones a third of their size
# (libcudnn_engines_precompiled.so.9), and 183 MB at most (libcublasLt.so.13).
CALL_COST = 64
LEAST_BYTES, PER_BYTE = 512 << 10, 32  # a wheel may have 100,000 small files: each is cheap
FREE_BYTES = 16 << 20
SHARE = 1  # of the file's size, beyond that: three times what an honest file needs
MOST_BYTES = 512 << 20


class UnreadableError(ValueError):
    """The bytes are not what they claim to be; the message says why, for people."""


def budget(size: int) -> int:
    """Return the bytes that a reader may ask for in a file of ``size`` bytes."""
    free = min(FREE_BYTES, LEAST_BYTES + PER_BYTE * size)
    return min(free + size // SHARE, MOST_BYTES)


class Metered:
    """A seekable binary stream that ends with UnreadableError when too much is asked of it."""

    def __init__(self, stream: BinaryIO) -> None:
        """Read ``stream``, whatever its position."""
        self._stream = stream
        self.size = stream.seek(0, os.SEEK_END)
        self._left = budget(self.size)
        self._at = 0

    def read(self, count: int = -1) -> bytes:
        """Return at most ``count`` bytes, as files do."""
        here = max(0, self.size - self._at)
        count = here if count < 0 else min(count, here)
        self._left -= count + CALL_COST
        if self._left < 0:
            raise UnreadableError("its structure needs more reading than a file of its size can")
        if not count:
            return b""  # a file on disk refuses to seek where a damaged one points: to 2^63
        self._stream.seek(self._at)
        data = self._stream.read(count)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move, also beyond the end, as files do; raise UnreadableError before the start."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        if start + offset < 0:
            raise UnreadableError("points before its own start")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seekable(self) -> bool:
        """Say yes."""
        return True

    def exactly(self, offset: int, count: int, what: str) -> bytes:
        """Return ``count`` bytes at ``offset``; raise UnreadableError naming ``what`` if cut."""
        if offset + count > self.size:
            raise UnreadableError(f"{what} ends {offset + count - self.size} bytes after the file")
        self.seek(offset)
        return self.read(count)
