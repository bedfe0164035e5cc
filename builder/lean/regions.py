"""Fat binaries trimmed in place: the entries that a GPU may run move to the front of their region.

A region keeps its address, which the program refers to; what is freed behind the kept entries
becomes zeros. Which entries a driver may take follows CUDA's selection order: exact machine code,
then that of the same family, and PTX only where no machine code of the region loads. A driver that
has chosen an entry does not try another one, so nothing that could be chosen is dropped.

A region of an unknown form, with an entry of an unknown kind, or with nothing that loads stays as
it is: what a driver answers for an empty region has not been seen on a GPU.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from builder.binaries.facts import Code, Form
from builder.binaries.fatbin import ARCH_EXACT, FAMILY, FORMS, MAGIC
from builder.gate.coverage import Fit, fit

REGION = struct.Struct("<IHHQ")  # magic, version, size of the header, size of the entries
ENTRY = struct.Struct("<HHIQ12xI8xQ")  # kind, version, header, payload, architecture, flags
VERSION = 1
ALIGNMENT = 8
PADDING_BYTES = 1 << 20  # looked at at once, after smaller pieces: most padding is short
LINK_KINDS = (8, 64)  # NVVM and LTO code: for a linker, no GPU runs them


class UnknownFormError(Exception):
    """The section holds something that is no region of a known form; it must stay as it is."""


class Entry(NamedTuple):
    """One entry: where it lies in the file, its bytes with header, and its code; None for LTO."""

    start: int
    length: int
    code: Code | None


class Region(NamedTuple):
    """One region: where it lies, the bytes of its header and of its entries, and the entries."""

    start: int
    header: int
    size: int
    entries: tuple[Entry, ...]

    @property
    def end(self) -> int:
        """Return where the region ends."""
        return self.start + self.header + self.size


class Freed(NamedTuple):
    """A range of the file that nothing needs any more."""

    start: int
    end: int


def read_regions(data: memoryview, start: int, end: int) -> Iterator[Region]:
    """Yield the regions between two offsets; raises UnknownFormError for anything else there."""
    at = _skip_zeros(data, start, end)
    while at < end:
        magic, version, header, size = REGION.unpack_from(_inside(data, at, REGION.size, end))
        if magic != MAGIC or version != VERSION or header < REGION.size or at + header + size > end:
            raise UnknownFormError(f"no fat binary of a known form at byte {at}")
        entries = tuple(_entries(data, at + header, at + header + size))
        yield Region(at, header, size, entries)
        at = _skip_zeros(data, at + header + size, end)


def _entries(data: memoryview, at: int, end: int) -> Iterator[Entry]:
    while at < end:
        kind, _, header, size, arch, flags = ENTRY.unpack_from(_inside(data, at, ENTRY.size, end))
        if header < ENTRY.size or at + header + size > end or \
                (kind not in FORMS and kind not in LINK_KINDS):
            raise UnknownFormError(f"no entry of a known form at byte {at}")
        variant = "a" if flags & ARCH_EXACT else "f" if flags & FAMILY else ""
        code = Code(FORMS[kind], arch, variant, 1, size) if kind in FORMS else None
        yield Entry(at, header + size, code)
        at += header + size


def _inside(data: memoryview, at: int, size: int, end: int) -> memoryview:
    if at + size > end:
        raise UnknownFormError(f"a header at byte {at} is cut short")
    return data[at:at + size]


def _skip_zeros(data: memoryview, at: int, end: int) -> int:
    block = 64
    while at < end:
        chunk = bytes(data[at:min(at + block, end)])
        zeros = len(chunk) - len(chunk.lstrip(b"\0"))
        if zeros < len(chunk):
            return at + zeros // ALIGNMENT * ALIGNMENT
        at += len(chunk)
        block = min(8 * block, PADDING_BYTES)
    return end


def kept(region: Region, gpu: str) -> tuple[Entry, ...]:
    """Return the entries that a driver may take on ``gpu``; none where nothing loads."""
    fits = [(entry, fit(entry.code, gpu)) for entry in region.entries if entry.code]
    native = [entry for entry, how in fits if how in (Fit.NATIVE, Fit.FAMILY)]
    compiled = [entry for entry, how in fits if how is Fit.JIT and entry.code
                and entry.code.form is Form.PTX]
    return tuple(native or compiled)


def compact(data: memoryview, region: Region, entries: tuple[Entry, ...]) -> Freed | None:
    """Move ``entries`` to the region's front; return what became free, for ``zero``."""
    if len(entries) == len(region.entries):
        return None
    at = region.start + region.header
    for entry in entries:
        data[at:at + entry.length] = bytes(data[entry.start:entry.start + entry.length])
        at += entry.length
    magic, version, header, _ = REGION.unpack_from(data, region.start)
    REGION.pack_into(data, region.start, magic, version, header, at - region.start - header)
    return Freed(at, region.end)


def zero(data: memoryview, freed: Iterable[Freed], cut: Iterable[Freed]) -> None:
    """Write zeros over what was ``freed``, but for what is ``cut`` out of the file anyway.

    Both are in order and do not touch each other; each cut lies in one freed range.
    """
    holes = deque(cut)
    for start, end in freed:
        at = start
        while holes and holes[0].end <= end:
            hole = holes.popleft()
            data[at:hole.start] = bytes(hole.start - at)
            at = hole.end
        data[at:end] = bytes(end - at)
