"""One library from file to file: less code, the same library, or untouched with a reason."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lean_files import BASE, PAGE, PTX, SASS, Code, Library, memory_image, region

from builder.binaries.elf import read_elf
from builder.lean import library
from builder.lean.library import RELA, Trimmed, trim_library
from builder.lean.regions import Freed
from builder.lean.segments import Written, read_layout

GPU = "sm_121"
BIG = b"x" * 8 * PAGE
MIXED = [region(Code(SASS, 80, payload=BIG), Code(SASS, 120, payload=b"mine" * 64)),
         region(Code(SASS, 90, payload=b"only" * 64)),
         region(Code(SASS, 80, payload=BIG), Code(PTX, 80, payload=b"text" * 64))]


def trim(tmp_path: Path, data: bytes) -> tuple[Trimmed, Path]:
    source, target = tmp_path / "whole.so", tmp_path / "trimmed.so"
    source.write_bytes(data)
    return trim_library(source, target, GPU), target


def test_dead_code_goes_and_the_rest_stays_at_its_address(tmp_path: Path) -> None:
    data = Library(MIXED, debug=b"symbols" * 1000).build()
    result, target = trim(tmp_path, data)
    after = target.read_bytes()
    assert (result.kept, result.dropped, result.whole, result.regions) == (3, 2, 1, 3)
    assert result.after == len(after) < len(data) - 12 * PAGE
    assert result.written == Written(len(after), hashlib.sha256(after).digest())
    assert result.debug == 7000
    assert result.reason == ""
    codes = {code.name: code.count for code in read_elf(after, "x").cuda}
    assert codes == {"sm_120": 1, "sm_90": 1, "compute_80": 1}
    memory, start = memory_image(after), BASE + len(MIXED[0])
    assert memory[start:start + len(MIXED[1])] == MIXED[1], "a region with nothing left stays whole"
    assert b"DATA" * 16 in memory


def test_a_region_that_nobody_refers_to_stays_whole(tmp_path: Path) -> None:
    result, target = trim(tmp_path, Library(MIXED, referred=1).build())
    assert (result.dropped, result.whole) == (1, 2)
    assert target.exists()


def test_a_library_with_nothing_to_drop_is_not_written(tmp_path: Path) -> None:
    result, target = trim(tmp_path, Library([region(Code(SASS, 120))]).build())
    assert result.before == result.after
    assert result.reason == ""
    assert not target.exists()


def test_pages_given_back_early_are_not_missing_in_what_is_written(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Library(MIXED * 3, debug=b"symbols" * 100_000).build()
    _, target = trim(tmp_path, data)
    expected = target.read_bytes()
    monkeypatch.setattr(library, "WINDOW_BYTES", 1)
    _, target = trim(tmp_path, data)
    assert target.read_bytes() == expected


def test_a_table_of_relocations_that_is_cut_short_leaves_the_library_whole(tmp_path: Path) -> None:
    data = bytearray(Library(MIXED).build())
    layout = read_layout(memoryview(data))
    number = next(number for number, section in enumerate(layout.sections) if section.kind == RELA)
    table = layout.fields[6]
    assert isinstance(table, int)
    struct.pack_into("<Q", data, table + number * 64 + 32, 25)
    result, target = trim(tmp_path, bytes(data))
    assert "relocations" in result.reason
    assert not target.exists()


@pytest.mark.parametrize("data", [b"", b"no library", b"\x7fELF\x02\x01" + bytes(100)])
def test_what_is_no_library_stays_with_a_reason(tmp_path: Path, data: bytes) -> None:
    result, target = trim(tmp_path, data)
    assert result.before == result.after == len(data)
    assert bool(result.reason) == bool(data)
    assert not target.exists()


def test_a_result_that_differs_in_more_than_gpu_code_never_leaves(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = library.write_without

    def damaging(data: memoryview, holes: Sequence[Freed], dropped: Collection[str],
                 target: Path, done: Callable[[int], object]) -> Written:
        written = whole(data, holes, dropped, target, done)
        body = target.read_bytes()
        target.write_bytes(body.replace(b"\x78\0\0\0", b"\x77\0\0\0"))  # sm_120 becomes sm_119
        return written

    monkeypatch.setattr(library, "write_without", damaging)
    result, target = trim(tmp_path, Library(MIXED).build())
    assert "differs" in result.reason
    assert result.before == result.after
    assert not target.exists()


def test_a_library_that_would_grow_stays_whole(tmp_path: Path) -> None:
    """Found by fuzzing: a few dropped bytes cost less than the headers of the file's new parts."""
    result, target = trim(tmp_path, Library(
        [region(Code(SASS, 80, payload=b"x" * 9000), Code(SASS, 120))]).build())
    assert result.after == result.before
    assert "would not be smaller" in result.reason
    assert not target.exists()


@settings(max_examples=60, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, BASE + 5000), st.binary(min_size=1, max_size=64))
def test_damage_ends_in_a_reason_or_in_a_library_that_reads(
        tmp_path: Path, at: int, noise: bytes) -> None:
    data = bytearray(Library([MIXED[1], region(Code(SASS, 80), Code(SASS, 120))]).build())
    data[at:at + len(noise)] = noise
    result, target = trim(tmp_path, bytes(data))
    if result.after < result.before:
        read_elf(target.read_bytes(), "x")
    target.unlink(missing_ok=True)
