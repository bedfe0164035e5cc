"""The table of sections of a cubin: names and places, within bounds."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from builder.binaries.metered import UnreadableError

_SECTION = struct.Struct("<IIQQQQIIQQ")
_HEADER_BYTES = 64


def sections(data: bytes, longest: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield each section's name (of at most ``longest`` bytes), offset and size."""
    if len(data) < _HEADER_BYTES:
        raise UnreadableError("not an ELF file for a GPU")
    start, = struct.unpack_from("<Q", data, 40)
    size, count, names_index = struct.unpack_from("<HHH", data, 58)
    if not count:
        return
    if size != _SECTION.size or start + size * count > len(data) or names_index >= count:
        raise UnreadableError("the table of sections is damaged")
    headers = list(_SECTION.iter_unpack(data[start:start + size * count]))
    names = headers[names_index][4]
    for header in headers:
        name = data[names + header[0]:names + header[0] + longest].partition(b"\0")[0]
        yield name, header[4], header[5]
