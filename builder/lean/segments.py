"""A library rewritten without the holes that trimming left: segments split around freed pages.

Addresses stay: each part of a split segment keeps its virtual address, and a hole is memory that
the loader fills with zeros (``p_memsz`` beyond ``p_filesz``). File offsets move, by whole pages of
64 KiB, the largest that aarch64 has, so that every offset stays congruent to its address. Sections
that no loader reads (symbols for a debugger) are left out as well. The tables of headers go behind
everything else, that of the program beginning a page of its own: in the last writable segment's
final page a loader would overwrite it with zeros.

The file is written from its first byte to its last, and hashed while it is: nothing is read again
for that.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

from builder.lean.regions import Freed

PAGE = 1 << 16
LEAST_HOLE = 4 * PAGE  # smaller ones cost more headers than they are worth
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM = struct.Struct("<IIQQQQQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
LOAD, PROGRAM_HEADERS, NULL = 1, 6, 0
NO_BITS, ALLOCATED = 8, 2
COPY_BYTES = 1 << 20
NO_SECTION = (0,) * 10


class Segment(NamedTuple):
    """A program header."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int
    alignment: int

    @property
    def end(self) -> int:
        """Return the file offset where the segment ends."""
        return self.offset + self.file_size


class Section(NamedTuple):
    """A section header with its name; ``head`` are the fields as the file has them."""

    name: str
    head: tuple[int, ...]

    @property
    def kind(self) -> int:
        """Return the section's type."""
        return self.head[1]

    @property
    def loaded(self) -> bool:
        """Say whether the section is a part of the memory image."""
        return bool(self.head[2] & ALLOCATED)

    @property
    def start(self) -> int:
        """Return the file offset where the section begins."""
        return self.head[4]

    @property
    def end(self) -> int:
        """Return the file offset where the section ends."""
        return self.head[4] + (0 if self.kind == NO_BITS else self.head[5])


class Layout(NamedTuple):
    """The headers of an ELF file; ``machine`` is its number (183: aarch64, 62: x86-64)."""

    machine: int
    fields: tuple[bytes | int, ...]
    segments: tuple[Segment, ...]
    sections: tuple[Section, ...]

    def section(self, name: str) -> Section | None:
        """Return the first section of this name."""
        return next((section for section in self.sections if section.name == name), None)


def read_layout(data: memoryview) -> Layout:
    """Read the headers of a 64-bit little-endian ELF file; raises ValueError for another one."""
    if len(data) < HEADER.size or bytes(data[:6]) != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    fields = HEADER.unpack_from(data)
    programs, sections, segment_count, section_count, names = (
        fields[5], fields[6], fields[10], fields[12], fields[13])
    try:
        segments = tuple(Segment(*PROGRAM.unpack_from(data, programs + number * PROGRAM.size))
                         for number in range(segment_count))
        heads = [SECTION.unpack_from(data, sections + number * SECTION.size)
                 for number in range(section_count)]
    except (struct.error, OverflowError) as error:
        raise ValueError(f"its headers lie outside of the file: {error}") from error
    if names >= len(heads):
        raise ValueError("it has no table of section names")
    table = bytes(data[heads[names][4]:heads[names][4] + heads[names][5]])
    named = tuple(Section(_name(table, head[0]), head) for head in heads)
    return Layout(fields[2], fields, segments, named)


def _name(table: bytes, start: int) -> str:
    return table[start:table.find(b"\0", start)].decode("ascii", "replace")


def holes_of(freed: Iterable[Freed], least: int = LEAST_HOLE) -> tuple[Freed, ...]:
    """Return the whole pages of freed ranges; ranges that touch count as one."""
    pages = (Freed(-(-start // PAGE) * PAGE, end // PAGE * PAGE) for start, end in joined(freed))
    return tuple(hole for hole in pages if hole.end - hole.start >= least)


def joined(ranges: Iterable[Freed]) -> list[Freed]:
    """Return ranges in order, those that touch as one."""
    result: list[Freed] = []
    for start, end in sorted(ranges):
        if result and start <= result[-1].end:
            result[-1] = Freed(result[-1].start, max(end, result[-1].end))
        else:
            result.append(Freed(start, end))
    return result


def unloaded(layout: Layout, names: Collection[str]) -> tuple[Freed, ...]:
    """Return the file ranges of sections that nothing loads, as far as they can be cut out.

    What is loaded from behind a range must stay congruent to its address, so that such a range is
    cut by whole pages. Raises ValueError for a section that is loaded.
    """
    loads = [segment for segment in layout.segments if segment.kind == LOAD]
    ranges = joined(Freed(section.start, section.end) for section in layout.sections
                    if section.name in names and section.end > section.start)
    for part in ranges:
        if any(load.offset < part.end and part.start < load.end for load in loads):
            raise ValueError("a section to leave out lies inside of what is loaded")
    last = max((load.end for load in loads), default=0)
    return tuple(cut for part in ranges
                 for cut in ([part] if part.start >= last else holes_of([part], PAGE)))


class _Moves:
    """Where what lay at an old file offset lies now that the holes are gone."""

    def __init__(self, holes: Sequence[Freed]) -> None:
        self._ends = [hole.end for hole in holes]
        self._gone = [0, *accumulate(hole.end - hole.start for hole in holes)]

    def __call__(self, offset: int) -> int:
        return offset - self._gone[bisect_right(self._ends, offset)]


class Written(NamedTuple):
    """A file that was written: how many bytes it has, and their sha256."""

    size: int
    sha256: bytes


def write_without(data: memoryview, holes: Sequence[Freed], dropped: Collection[str],
                  target: Path, done: Callable[[int], object] = lambda _offset: None) -> Written:
    """Write the file to ``target`` without ``holes`` and without the sections ``dropped``.

    Holes lie inside loaded segments, dropped sections outside of them. Raises ValueError where
    either is not so. The headers are changed in ``data``; ``done`` is told up to which offset of
    it nothing is needed any more.
    """
    layout = read_layout(data)
    cuts = sorted([*holes, *unloaded(layout, dropped)])
    moves = _Moves(cuts)
    segments = [part for segment in layout.segments for part in _split(segment, holes, moves)]
    sections = [NO_SECTION if section.name in dropped else _moved(section, holes, moves)
                for section in layout.sections]
    heads = -(-moves(len(data)) // 8) * 8
    table = -(-(heads + len(sections) * SECTION.size) // PAGE) * PAGE
    fields = list(layout.fields)
    fields[6], fields[10] = heads, len(segments)
    programs, place = b"".join(PROGRAM.pack(*segment) for segment in segments), int(fields[5])
    tail = bytes(heads - moves(len(data))) + b"".join(SECTION.pack(*head) for head in sections)
    if len(segments) > len(layout.segments):
        fields[5] = table
        tail += bytes(table - heads - len(sections) * SECTION.size) + programs
    else:
        data[place:place + len(programs)] = programs
        fields[5] = moves(place)
    data[:HEADER.size] = HEADER.pack(*fields)
    return _write(chain(_chunks(data, cuts, done), [tail]), target)


def _write(parts: Iterable[bytes | memoryview], target: Path) -> Written:
    state, size = hashlib.sha256(), 0
    with target.open("wb") as handle:
        for part in parts:
            handle.write(part)
            state.update(part)
            size += len(part)
    return Written(size, state.digest())


def _chunks(data: memoryview, cuts: Sequence[Freed], done: Callable[[int], object]
            ) -> Iterator[memoryview]:
    at = 0
    for cut in (*cuts, Freed(len(data), len(data))):
        for start in range(at, cut.start, COPY_BYTES):
            end = min(start + COPY_BYTES, cut.start)
            yield data[start:end]
            done(end)
        at = cut.end


def _split(segment: Segment, holes: Sequence[Freed], moves: _Moves) -> list[Segment]:
    """Return the parts of a segment between the holes in it; others only move."""
    inside = [hole for hole in holes if segment.offset <= hole.start and hole.end <= segment.end]
    if segment.kind == PROGRAM_HEADERS:
        return [segment._replace(kind=NULL)]  # it would name the old table
    if segment.kind != LOAD:
        if inside:
            raise ValueError("a hole lies in a segment that cannot be split")
        return [segment._replace(offset=moves(segment.offset))]
    starts = [segment.offset, *(hole.end for hole in inside)]
    ends = [*(hole.start for hole in inside), segment.end]
    memory_ends = [*starts[1:], segment.offset + segment.memory_size]
    return [segment._replace(
        offset=moves(start), address=segment.address + start - segment.offset,
        physical=segment.physical + start - segment.offset, file_size=end - start,
        memory_size=until - start)
        for start, end, until in zip(starts, ends, memory_ends, strict=True)]


def _moved(section: Section, holes: Sequence[Freed], moves: _Moves) -> tuple[int, ...]:
    """Return a section header with its new place; holes inside make the section shorter."""
    gone = sum(hole.end - hole.start for hole in holes
               if section.start <= hole.start and hole.end <= section.end)
    head = section.head
    return (*head[:4], moves(head[4]), head[5] - gone, *head[6:])
