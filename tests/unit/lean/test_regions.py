"""Which entries stay, what a trimmed region looks like, and what is left alone."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lean_files import EXACT, FAMILY, LTO, PTX, SASS, Code, region

from builder.lean.regions import Freed, UnknownFormError, compact, kept, read_regions, zero

GPU = "sm_121"


def names(data: bytes, gpu: str = GPU) -> list[str]:
    """Return the code that stays in the first region."""
    (first,) = read_regions(memoryview(data), 0, len(data))
    return [entry.code.name for entry in kept(first, gpu) if entry.code]


@pytest.mark.parametrize(("codes", "stay"), [
    ([Code(SASS, 80), Code(SASS, 90), Code(SASS, 120)], ["sm_120"]),
    ([Code(SASS, 120), Code(SASS, 121, EXACT), Code(PTX, 120)], ["sm_120", "sm_121a"]),
    ([Code(SASS, 120, FAMILY), Code(SASS, 100)], ["sm_120f"]),
    ([Code(SASS, 80), Code(PTX, 80)], ["compute_80"]),
    ([Code(SASS, 120, EXACT), Code(PTX, 90)], ["compute_90"]),
    ([Code(PTX, 130), Code(PTX, 90, EXACT), Code(PTX, 75)], ["compute_75"]),
    ([Code(SASS, 100, EXACT), Code(SASS, 90, EXACT)], []),
    ([Code(SASS, 120), Code(LTO, 120)], ["sm_120"]),
])
def test_what_a_driver_may_choose_stays(codes: list[Code], stay: list[str]) -> None:
    assert names(region(*codes)) == stay


def test_the_kept_entries_move_to_the_front_and_the_rest_is_zero() -> None:
    codes = [Code(SASS, 80, payload=b"old " * 64), Code(SASS, 120, payload=b"mine" * 8),
             Code(PTX, 80, payload=b"text" * 32)]
    data = bytearray(region(*codes))
    view = memoryview(data)
    (first,) = read_regions(view, 0, len(data))
    freed = compact(view, first, kept(first, GPU))
    assert freed is not None
    zero(view, [freed], [])
    (after,) = read_regions(view, 0, len(data))
    assert after.start == first.start
    assert after.header == first.header
    assert [entry.code and entry.code.name for entry in after.entries] == ["sm_120"]
    assert b"mine" * 8 in data
    assert not any(data[freed.start:freed.end])
    assert b"old " not in data


def test_what_is_cut_out_of_the_file_is_not_written_first() -> None:
    data = bytearray(b"x" * 40)
    zero(memoryview(data), [Freed(2, 10), Freed(12, 30), Freed(35, 36)],
         [Freed(14, 18), Freed(20, 30)])
    assert data.decode() == ("xx" + "\0" * 8 + "xx" + "\0\0xxxx\0\0" + "x" * 10 + "x" * 5 + "\0"
                             + "x" * 4)


def test_a_region_that_keeps_everything_is_not_touched() -> None:
    data = bytearray(region(Code(SASS, 120)))
    before = bytes(data)
    (first,) = read_regions(memoryview(data), 0, len(data))
    assert compact(memoryview(data), first, kept(first, GPU)) is None
    assert data == before


@pytest.mark.parametrize(("offset", "form", "value"), [
    (0, "<I", 0xBA55ED51),  # another magic
    (4, "<H", 2),  # another version of the region
    (8, "<Q", 1 << 20),  # a region that is longer than the section
    (16, "<H", 7),  # an entry of an unknown kind
    (24, "<Q", 1 << 30),  # an entry that is longer than its region
])
def test_an_unknown_form_is_refused(offset: int, form: str, value: int) -> None:
    data = bytearray(region(Code(SASS, 120)))
    struct.pack_into(form, data, offset, value)
    with pytest.raises(UnknownFormError):
        list(read_regions(memoryview(data), 0, len(data)))


@given(st.binary(max_size=400), st.integers(0, 255))
def test_damage_never_reads_beyond_the_section(noise: bytes, at: int) -> None:
    data = bytearray(region(Code(SASS, 120), Code(PTX, 80)))
    data[at:at + len(noise)] = noise
    try:
        regions = list(read_regions(memoryview(data), 0, len(data)))
    except UnknownFormError:
        return
    assert all(entry.start + entry.length <= part.end <= len(data)
               for part in regions for entry in part.entries)
