"""Bytes of unknown origin, read within bounds: no reader of them runs out of memory or time.

A damaged or malicious file can ask its reader for a table of 2^60 entries, or for the same bytes
over and over. Whoever reads through a ``Metered`` stream gets at most what is there, and is
stopped once he has asked for more than an honest file needs.
"""

from __future__ import annotations

import os
from typing import BinaryIO

# A call costs as much as this many bytes, so that many small reads end too. Honest files need
# their symbol tables, below a tenth of their size, and a few hundred small reads.
CALL_COST = 64
FREE_BYTES = 16 << 20
SHARE = 1  # of the file's size, beyond what is free: libcublasLt.so.13 is nearly all fat binary


class UnreadableError(ValueError):
    """The bytes are not what they claim to be; the text says why, for a person."""


class Metered:
    """A seekable binary stream that ends with UnreadableError when too much is asked of it."""

    def __init__(self, stream: BinaryIO) -> None:
        """Take over ``stream``, wherever it stands."""
        self._stream = stream
        self.size = stream.seek(0, os.SEEK_END)
        self._left = FREE_BYTES + self.size // SHARE
        self._at = 0

    def read(self, count: int = -1) -> bytes:
        """Return at most ``count`` bytes, as files do."""
        here = max(0, self.size - self._at)
        count = here if count < 0 else min(count, here)
        self._left -= count + CALL_COST
        if self._left < 0:
            raise UnreadableError("asks for more reading than such a file can need")
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
            raise UnreadableError(f"{what} ends {offset + count - self.size} bytes behind the file")
        self.seek(offset)
        return self.read(count)
