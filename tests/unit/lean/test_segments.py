"""A file without its holes: the same in memory, smaller on disk."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from lean_files import BASE, PAGE, SASS, Code, Library, memory_image, region

from builder.lean.regions import Freed
from builder.lean.segments import Written, holes_of, joined, read_layout, unloaded, write_without

LARGE = [region(Code(SASS, 80, payload=bytes([number]) * 8 * PAGE)) for number in range(1, 4)]
HOLE = Freed(BASE + PAGE, BASE + 6 * PAGE)
HEADERS = 64 + 56 * 2


def with_a_hole(debug: bytes = b"") -> bytearray:
    data = bytearray(Library(LARGE, debug=debug).build())
    data[HOLE.start:HOLE.end] = bytes(HOLE.end - HOLE.start)
    return data


def test_whole_pages_of_freed_ranges_are_holes() -> None:
    assert holes_of([Freed(1, 5 * PAGE), Freed(5 * PAGE, 6 * PAGE + 9)]) == (
        Freed(PAGE, 6 * PAGE),)
    assert holes_of([Freed(0, PAGE)]) == ()
    assert joined([Freed(5, 9), Freed(0, 5), Freed(20, 21)]) == [Freed(0, 9), Freed(20, 21)]


def test_addresses_stay_and_the_file_shrinks(tmp_path: Path) -> None:
    data, target = with_a_hole(b"symbols" * 1000), tmp_path / "trimmed.so"
    before = memory_image(bytes(data))
    written = write_without(memoryview(data), [HOLE], [".symtab"], target)
    after = target.read_bytes()
    assert written == Written(len(after), hashlib.sha256(after).digest())
    assert len(after) < len(data) - 3 * PAGE
    assert memory_image(after)[HEADERS:] == before[HEADERS:]
    layout = read_layout(memoryview(after))
    fat = layout.section(".nv_fatbin")
    assert fat is not None
    assert fat.end - fat.start == sum(map(len, LARGE)) - 5 * PAGE
    assert layout.section(".symtab") is None
    assert b"symbols" not in after


def test_the_program_headers_lie_in_no_page_of_a_segment(tmp_path: Path) -> None:
    write_without(memoryview(with_a_hole()), [HOLE], [], tmp_path / "trimmed.so")
    layout = read_layout(memoryview((tmp_path / "trimmed.so").read_bytes()))
    table = layout.fields[5]
    assert isinstance(table, int)
    assert all(-(-segment.end // PAGE) * PAGE <= table for segment in layout.segments)


def test_what_is_loaded_is_never_left_out() -> None:
    layout = read_layout(memoryview(Library(LARGE).build()))
    with pytest.raises(ValueError, match="loaded"):
        unloaded(layout, [".data"])


@pytest.mark.parametrize("data", [
    b"", b"\x7fELF\x01\x01" + bytes(64), b"\x7fELF\x02\x01" + bytes(80),
    b"\x7fELF\x02\x01" + b"\xff" * 80])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"ELF|headers|section names"):
        read_layout(memoryview(data))
