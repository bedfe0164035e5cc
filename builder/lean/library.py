"""One library trimmed for one GPU: its GPU code reduced, its file made smaller, and both proved.

A result that the readers of ``binaries`` do not accept, or that differs in anything but the dropped
GPU code, never leaves this module: the library then stays as it was, with the reason.

The library is read as pages of its file. They are given back as soon as they were looked at or
written, so that two of the largest libraries fit into memory beside each other.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from builder.binaries.elf import NVIDIA, read_elf
from builder.binaries.facts import Code, ElfFacts, Form
from builder.binaries.fatbin import SECTION, TO_LINK, alike
from builder.binaries.metered import UnreadableError
from builder.lean.regions import (
    Freed,
    Region,
    UnknownFormError,
    compact,
    kept,
    read_regions,
    zero,
)
from builder.lean.segments import (
    LOAD,
    Layout,
    Written,
    holes_of,
    joined,
    read_layout,
    write_without,
)
from builder.removal import remove_file

RELATIVE = {183: 1027, 62: 8}  # by machine (aarch64, x86-64): "this address, wherever I am loaded"
RELA = 4
RELOCATION_BYTES = 24  # place, kind, addend
BLOCK_BYTES = RELOCATION_BYTES << 16  # of relocations that are unpacked at once
WINDOW_BYTES = 16 << 20  # of pages that stay in memory behind what was read or written last
DEBUG = (".symtab", ".strtab", ".debug_", ".gdb_index", ".gnu_debuglink")  # nothing loads these


@dataclass(frozen=True)
class Trimmed:
    """What trimming one library came to: bytes, entries of GPU code, bytes of debug symbols.

    ``whole`` of ``regions`` were left as they are, as nothing in them loads or nobody refers to
    them; ``reason`` says why the library stays as it was, and is empty otherwise. ``written`` is
    what was written, None where nothing was.
    """

    before: int
    after: int
    kept: int = 0
    dropped: int = 0
    whole: int = 0
    regions: int = 0
    debug: int = 0
    reason: str = ""
    written: Written | None = None


@dataclass
class _Work:
    """What one pass over a library's fat binaries leaves behind."""

    freed: list[Freed] = field(default_factory=list)
    codes: dict[str, list[Code]] = field(default_factory=dict)
    loaded: list[set[str]] = field(default_factory=list)
    kept: int = 0
    dropped: int = 0
    whole: int = 0
    regions: int = 0


class _Window:
    """Gives pages back to the system that will not be read again or were not changed."""

    def __init__(self, pages: mmap.mmap) -> None:
        self._pages, self._at = pages, 0

    def drop(self, start: int, end: int) -> None:
        """Give back the whole pages between two offsets; what was changed there is lost."""
        first, last = (-(-start // mmap.PAGESIZE) * mmap.PAGESIZE,
                       end // mmap.PAGESIZE * mmap.PAGESIZE)
        if last > first:
            self._pages.madvise(mmap.MADV_DONTNEED, first, last - first)

    def seen(self, start: int, regions: Iterable[Region]) -> Iterator[Region]:
        """Yield what was read from ``start`` on, and give back the pages behind it."""
        for region in regions:
            yield region
            if region.end - start >= WINDOW_BYTES:
                self.drop(start, region.end)
                start = region.end

    def written(self, offset: int) -> None:
        """Give back what lies before ``offset``: it is in the new file."""
        if offset - self._at >= WINDOW_BYTES:
            self.drop(self._at, offset)
            self._at = offset


def trim_library(source: Path, target: Path, gpu: str) -> Trimmed:
    """Write ``source`` without code that ``gpu`` can never run, and without debug symbols.

    ``target`` is written only where something was dropped and the result was proved.
    """
    size = source.stat().st_size
    if not size:
        return Trimmed(0, 0)
    with source.open("rb") as handle, \
            mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY) as pages, \
            memoryview(pages) as data:
        try:
            return _trim(data, _Window(pages), source, target, gpu)
        except (UnknownFormError, UnreadableError, ValueError, struct.error) as error:
            remove_file(target, target.parent)
            return Trimmed(size, size, reason=str(error))


def _trim(data: memoryview, window: _Window, source: Path, target: Path, gpu: str) -> Trimmed:
    layout, work = read_layout(data), _Work()
    for name in (SECTION, TO_LINK):
        _trim_section(data, window, layout, name, gpu, work)
    debug = {section.name: section.end - section.start for section in layout.sections
             if section.name.startswith(DEBUG)}
    result = Trimmed(len(data), len(data), work.kept, work.dropped, work.whole, work.regions,
                     sum(debug.values()))
    if not work.dropped and not result.debug:
        return result
    holes = holes_of(work.freed)
    zero(data, joined(work.freed), holes)
    written = write_without(data, holes, debug.keys(), target, window.written)
    if written.size >= len(data):
        raise ValueError("without that code the file would not be smaller")
    _prove(source, work, target)
    return replace(result, after=written.size, written=written)


def _trim_section(data: memoryview, window: _Window, layout: Layout, name: str, gpu: str,
                  work: _Work) -> None:
    """Trim the fat binaries of one section; all are read before the first one is changed."""
    section = layout.section(name)
    if section is None:
        return
    regions = list(window.seen(section.start, read_regions(data, section.start, section.end)))
    referred = set(_addresses(data, layout, section.start, section.end)) if name == SECTION \
        else {_address(layout, region.start) for region in regions}
    for region in regions:
        known = _address(layout, region.start) in referred
        entries = _trim_region(data, region, gpu if known else "", work)
        work.codes.setdefault(name, []).extend(entries)
        if name == SECTION and entries:
            work.loaded.append({code.name for code in entries})


def _trim_region(data: memoryview, region: Region, gpu: str, work: _Work) -> list[Code]:
    """Trim one region, not at all where ``gpu`` is empty; return the code that it has now."""
    entries = kept(region, gpu) if gpu else ()
    work.regions += 1
    if not entries:
        work.whole += 1
        entries = region.entries
    work.kept += len(entries)
    work.dropped += len(region.entries) - len(entries)
    hole = compact(data, region, entries)
    if hole:
        work.freed.append(hole)
    return [entry.code for entry in entries if entry.code]


def _addresses(data: memoryview, layout: Layout, start: int, end: int) -> Iterator[int]:
    """Yield the addresses between two file offsets that relative relocations name."""
    wanted = RELATIVE.get(layout.machine)
    low, high = _address(layout, start), _address(layout, end - 1)
    for section in layout.sections:
        body = data[section.start:section.end if section.kind == RELA else section.start]
        if len(body) % RELOCATION_BYTES:
            raise ValueError("a table of relocations is cut short")
        for at in range(0, len(body), BLOCK_BYTES):
            fields = body[at:at + BLOCK_BYTES].cast("q").tolist()
            yield from (address for kind, address in zip(fields[1::3], fields[2::3], strict=True)
                        if low <= address <= high and kind == wanted)


def _address(layout: Layout, offset: int) -> int:
    """Return the address at which a file offset is loaded, or -1."""
    return next((segment.address + offset - segment.offset for segment in layout.segments
                 if segment.kind == LOAD and segment.offset <= offset < segment.end), -1)


def _prove(source: Path, work: _Work, target: Path) -> None:
    """Raise ValueError unless the result is the same library but for the dropped code."""
    codes = work.codes
    before, after = _facts(source), _facts(target)
    expected = replace(before, size=after.size, cuda=_summed(codes.get(SECTION, [])),
                       cuda_to_link=_summed(codes.get(TO_LINK, [])),
                       regions=alike(work.loaded))
    if after != expected:
        raise ValueError("the trimmed file differs in more than its GPU code")


def _facts(library: Path) -> ElfFacts:
    """Read a library, under a name whose GPU code is not unpacked: it was copied unread."""
    with library.open("rb") as handle:
        return read_elf(handle, f"{NVIDIA}library")


def _summed(codes: list[Code]) -> tuple[Code, ...]:
    totals: dict[tuple[Form, int, str], Code] = {}
    for code in codes:
        key = (code.form, code.arch, code.variant)
        known = totals.get(key)
        totals[key] = code if known is None else replace(
            known, count=known.count + code.count, size=known.size + code.size)
    return tuple(totals[key] for key in sorted(totals))
