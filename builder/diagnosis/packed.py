"""A log that was packed by gzip, as Docker and logrotate keep old ones, unpacked piece by piece."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator

GZIP_MAGIC = b"\x1f\x8b"
PIECE_BYTES = 1 << 20  # a small file may unpack to gigabytes: no more than this at once


def unpacked(chunks: Iterable[bytes | None]) -> Iterator[bytes | None]:
    """Yield what chunks hold if they are packed, and otherwise the chunks; None stays None.

    A file that is cut off ends where it is cut; one that is damaged ends before that place.
    """
    stream = iter(chunks)
    first = next(stream, b"")
    rest = itertools.chain([first] if first != b"" else [], stream)
    yield from _pieces(rest) if first is not None and first.startswith(GZIP_MAGIC) else rest


def _pieces(chunks: Iterator[bytes | None]) -> Iterator[bytes | None]:
    member = _member()
    for chunk in chunks:
        if chunk is None:
            yield None
            return
        while chunk:
            try:
                piece = member.decompress(chunk, PIECE_BYTES)
            except zlib.error:
                return
            yield piece
            chunk = member.unconsumed_tail or member.unused_data
            if member.eof:  # several packed files one after the other are one log
                member = _member()


def _member() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)
