"""The undefined dynamic symbols of a 64-bit little-endian ELF file; nothing more."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

DYNSYM = 11  # SHT_DYNSYM of the ELF specification
MAX_SYMBOLS = 5_000_000


def undefined_symbols(path: Path) -> Iterator[str]:
    """Yield the names that the file expects others to define; nothing for other files."""
    if path.stat().st_size < 64:
        return
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:6] != b"\x7fELF\x02\x01":
            return
        offset, = struct.unpack_from("<Q", data, 0x28)
        size, count = struct.unpack_from("<HH", data, 0x3A)
        sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + number * size)
                    for number in range(count) if offset + (number + 1) * size <= len(data)]
        for section in sections:
            if section[1] == DYNSYM and section[6] < len(sections):
                yield from _names(data, section, sections[section[6]][4])


def _names(data: mmap.mmap, section: tuple[int, ...], strings: int) -> Iterator[str]:
    start, length = section[4], min(section[5], MAX_SYMBOLS * 24)
    for name, _, _, index, _, _ in struct.iter_unpack(
            "<IBBHQQ", data[start:start + length - length % 24]):
        if index == 0 and name:
            end = data.find(b"\0", strings + name)
            yield data[strings + name:end].decode("utf-8", "replace")
