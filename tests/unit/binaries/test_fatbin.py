"""Fat binaries: NVIDIA's own, and made ones that are cut or absurd."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from elf_files import fatbin

from builder.binaries.facts import Code, Form, Region
from builder.binaries.fatbin import ARCH_EXACT, FAMILY, MAX_KINDS, read_fatbin
from builder.binaries.metered import Metered

FIXTURES = Path(__file__).parents[2] / "fixtures" / "gate"


def read(data: bytes, size: int | None = None) -> tuple[list[str], str]:
    found = read_fatbin(Metered(io.BytesIO(data)), 0, len(data) if size is None else size)
    return [code.name for code in found.code], found.damage


def test_what_nvidias_fatbinary_was_asked_to_write() -> None:
    assert read((FIXTURES / "kernel.fatbin").read_bytes()) == (
        ["compute_80", "compute_90a", "compute_120", "compute_120f", "compute_121a",
         "sm_80", "sm_90a", "sm_100f", "sm_120", "sm_120a", "sm_120f", "sm_121a", "sm_121f"], "")


def test_entries_are_counted_by_architecture_and_variant() -> None:
    data = fatbin((2, 120, 0x11), (2, 120, ARCH_EXACT), (2, 120, 0), (1, 75, 0x8011), payload=b"12")
    found = read_fatbin(Metered(io.BytesIO(data)), 0, len(data))
    assert found.code == (Code(Form.PTX, 75, "", 1, 2), Code(Form.SASS, 120, "", 2, 4),
                          Code(Form.SASS, 120, "a", 1, 2))


@pytest.mark.parametrize("padding", [0, 8, 4096, 200_000])
def test_regions_follow_each_other_with_padding(padding: int) -> None:
    one, two = fatbin((2, 120, FAMILY)), fatbin((2, 121, 0))
    data = one + bytes(padding) + two + bytes(padding)
    assert read(data) == (["sm_120f", "sm_121"], "")


def test_code_that_no_gpu_runs_is_passed_over() -> None:
    assert read(fatbin((8, 120, 0), (64, 90, 0), (2, 90, 0))) == (["sm_90"], "")


def test_regions_are_told_apart_by_their_architectures() -> None:
    exact, both = fatbin((2, 120, ARCH_EXACT), (2, 90, ARCH_EXACT)), fatbin((2, 120, 0), (1, 80, 0))
    data = exact + both + both
    assert read_fatbin(Metered(io.BytesIO(data)), 0, len(data)).regions == (
        Region(("compute_80", "sm_120"), 2), Region(("sm_120a", "sm_90a"), 1))
    nvidia = (FIXTURES / "sm_120a-only.fatbin").read_bytes()
    assert read_fatbin(Metered(io.BytesIO(nvidia)), 0, len(nvidia)).regions == (
        Region(("sm_120a", "sm_90a"), 1),)


def test_an_empty_section_holds_nothing() -> None:
    assert read(b"") == ([], "")
    assert read(bytes(64)) == ([], "")


def test_what_comes_before_the_cut_is_kept() -> None:
    whole = fatbin((2, 120, 0), (2, 121, 0))
    assert read(whole[:-1]) == (["sm_120"], "the entry at byte 96 is cut short")
    assert read(whole[:100]) == (["sm_120"], "a header at byte 96 is cut short")
    assert read(whole[:10])[1] == "a header at byte 0 is cut short"
    names, damage = read(whole[:-1], len(whole))
    assert (names, damage) == (["sm_120"], "the entry at byte 96 is cut short")


def test_a_region_that_claims_too_much_or_ends_early() -> None:
    whole = bytearray(fatbin((2, 120, 0)))
    whole[8:16] = (1 << 60).to_bytes(8, "little")
    assert read(bytes(whole)) == (["sm_120"], "the fat binary at byte 0 is cut short")
    whole[8:16] = (100).to_bytes(8, "little")
    assert "cut short" in read(bytes(whole) + bytes(100))[1]


@pytest.mark.parametrize(("at", "value"), [(0, 0x466243B1), (4, 0x100002), (4, 0x00080001)])
def test_other_forms_are_said_to_be_unknown(at: int, value: int) -> None:
    data = bytearray(fatbin((2, 120, 0)))
    data[at:at + 4] = value.to_bytes(4, "little")
    assert read(bytes(data)) == ([], "no fat binary of a known form at byte 0")


def test_an_entry_whose_header_is_smaller_than_one() -> None:
    data = bytearray(fatbin((2, 120, 0)))
    data[20:24] = bytes(4)  # would be read again and again
    assert read(bytes(data)) == ([], "the entry at byte 16 is cut short")


def test_more_architectures_than_there_are_end_the_reading() -> None:
    codes, damage = read(fatbin(*((2, arch, 0) for arch in range(MAX_KINDS + 5))))
    assert len(codes) == MAX_KINDS + 1
    assert damage == f"it has code for more than {MAX_KINDS} architectures"
    assert read(fatbin(*((2, 90 + arch % 5, 0) for arch in range(MAX_KINDS + 5))))[1] == ""
