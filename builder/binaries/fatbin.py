"""CUDA fat binaries: which GPU code lies in a ``.nv_fatbin`` section, read from headers alone.

A section holds regions, each aligned to 8 bytes. A region's header is ``u32`` magic 0xBA55ED50,
``u16`` version, ``u16`` size of the header, ``u64`` size of what follows. What follows are entries,
each with a header: ``u16`` kind, ``u16`` version, ``u32`` size of the header, ``u64`` size of the
payload, at byte 28 ``u32`` architecture, at byte 40 ``u64`` flags. Payloads are mostly compressed
(flag 0x2000 LZ4, 0x8000 zstd) and not needed for that: the flags also tell the variants of an
architecture apart. All of this was found by comparing headers with what NVIDIA's ``fatbinary`` was
asked to write and what its ``cuobjdump`` lists. Only code for the GPU of a Spark is looked into,
for kernels that refuse to run (``stubs.py``).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from builder.binaries.facts import Code, Form, Region, Stub
from builder.binaries.metered import Metered, UnreadableError
from builder.binaries.stubs import Looking

SECTION = ".nv_fatbin"
TO_LINK = "__nv_relfatbin"  # relocatable device code, linked into some other region
MAGIC = 0xBA55ED50
FORMS = {1: Form.PTX, 2: Form.SASS}  # others (8: NVVM, 64: LTO code) run on no GPU as they are
ARCH_EXACT, FAMILY = 0x100000, 0x200000
_REGION = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ12xI8xQ")
_ALIGNMENT = 8
_PADDING_BLOCK = 1 << 16
MAX_KINDS = 1_000  # forms, architectures and variants; honest files have a dozen
MAX_REGIONS = 500  # of different architectures; honest files have a few dozen
Totals = dict[tuple[Form, int, str], list[int]]  # to count and size


class Entry(NamedTuple):
    """One entry's header: what, for which architecture and variant, stored in so many bytes."""

    form: Form
    arch: int
    variant: str
    size: int


class Found(NamedTuple):
    """An entry, its region, and where its payload lies, packed as ``flags`` say."""

    entry: Entry
    region: int
    at: int
    flags: int


class FatBinary(NamedTuple):
    """The code of a section by architecture; ``damage`` is what could not be read, if anything."""

    code: tuple[Code, ...]
    damage: str = ""
    regions: tuple[Region, ...] = ()
    stubs: tuple[Stub, ...] = ()


def read_fatbin(data: Metered, start: int, size: int, *, look: bool = False) -> FatBinary:
    """Read the fat binaries between ``start`` and ``start + size``, as far as they are whole.

    With ``look``, code for sm_12x is unpacked and searched for kernels that refuse to run.
    """
    totals: Totals = {}
    regions: dict[int, set[str]] = {}
    looking, damage = Looking(), ""
    try:
        for entry, region, at, flags in _entries(data, start, start + size):
            _add(totals, entry)
            name = Code(entry.form, entry.arch, entry.variant, 1, entry.size).name
            regions.setdefault(region, set()).add(name)
            if look and looking.wants(entry.form, entry.arch, entry.size):
                looking.look(name, data.exactly(at, entry.size, "GPU code"), flags)
    except UnreadableError as error:
        damage = str(error)
    return FatBinary(_codes(totals), damage, alike(regions.values()), looking.stubs)


def alike(regions: Iterable[set[str]]) -> tuple[Region, ...]:
    """Return the different regions, each with how many have the same code."""
    counts = Counter(tuple(sorted(region)) for region in regions)
    return tuple(Region(codes, counts[codes]) for codes in sorted(counts)[:MAX_REGIONS])


def summed(entries: Iterable[Entry]) -> tuple[Code, ...]:
    """Count entries by form, architecture and variant."""
    totals: Totals = {}
    for entry in entries:
        _add(totals, entry)
    return _codes(totals)


def _add(totals: Totals, entry: Entry) -> None:
    total = totals.setdefault((entry.form, entry.arch, entry.variant), [0, 0])
    total[0] += 1
    total[1] += entry.size
    if len(totals) > MAX_KINDS:
        raise UnreadableError(f"it has code for more than {MAX_KINDS} architectures")


def _codes(totals: Totals) -> tuple[Code, ...]:
    return tuple(Code(*key, *totals[key]) for key in sorted(totals))


def entries(data: Metered, start: int, size: int) -> Iterator[Found]:
    """Yield every entry between ``start`` and ``start + size``; UnreadableError where damaged."""
    yield from _entries(data, start, start + size)


def _entries(data: Metered, at: int, end: int) -> Iterator[Found]:
    if end > data.size:
        yield from _entries(data, at, data.size)
        raise UnreadableError(f"the section ends {end - data.size} bytes after the file")
    while (at := _next_region(data, at, end)) < end:
        magic, version, header, size = _REGION.unpack(_within(data, at, _REGION.size, end))
        if magic != MAGIC or version != 1 or header < _REGION.size:
            raise UnreadableError(f"no fat binary of a known form at byte {at}")
        if at + header + size > end:
            yield from _region(data, at + header, end)
            raise UnreadableError(f"the fat binary at byte {at} is cut short")
        yield from _region(data, at + header, at + header + size)
        at += header + size


def _next_region(data: Metered, at: int, end: int) -> int:
    """Return where something begins behind the padding at ``at``, or ``end``."""
    block = _ALIGNMENT  # most regions follow at once; some sections are padded to a page
    while at < end:
        data.seek(at)
        chunk = data.read(min(block, end - at))
        zeros = len(chunk) - len(chunk.lstrip(b"\0"))
        if zeros < len(chunk):
            return at + zeros // _ALIGNMENT * _ALIGNMENT
        at += len(chunk)
        block = _PADDING_BLOCK
    return at


def _region(data: Metered, at: int, end: int) -> Iterator[Found]:
    start = at
    while at < end:
        kind, _, header, size, arch, flags = _ENTRY.unpack(_within(data, at, _ENTRY.size, end))
        if header < _ENTRY.size or at + header + size > end:
            raise UnreadableError(f"the entry at byte {at} is cut short")
        if kind in FORMS:
            variant = "a" if flags & ARCH_EXACT else "f" if flags & FAMILY else ""
            yield Found(Entry(FORMS[kind], arch, variant, size), start, at + header, flags)
        at += header + size


def _within(data: Metered, at: int, size: int, end: int) -> bytes:
    if at + size > end:
        raise UnreadableError(f"a header at byte {at} is cut short")
    return data.exactly(at, size, "a header")
