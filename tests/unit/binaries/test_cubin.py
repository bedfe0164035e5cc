"""Cubins as NVIDIA's assemblers wrote them, and damaged ones."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from elf_files import CUDA, elf_file

from builder.binaries import cubin
from builder.binaries.facts import Form
from builder.binaries.metered import UnreadableError

FIXTURES = Path(__file__).parents[2] / "fixtures" / "gate"


@pytest.mark.parametrize(("file", "arch", "variant"), [
    ("cuda12-sm_90", 90, ""), ("cuda12-sm_90a", 90, "a"), ("cuda12-sm_100a", 100, "a"),
    ("cuda13-sm_120", 120, ""), ("cuda13-sm_120a", 120, "a"), ("cuda13-sm_120f", 120, "f"),
])
def test_what_nvidias_assembler_was_asked_to_write(file: str, arch: int, variant: str) -> None:
    data = (FIXTURES / f"{file}.cubin").read_bytes()
    assert cubin.read_cubin(data) == (Form.SASS, arch, variant, len(data))


def test_without_notes_the_flags_decide() -> None:
    data = bytearray((FIXTURES / "cuda13-sm_120f.cubin").read_bytes())
    data[60:62] = bytes(2)  # no sections
    assert cubin.read_cubin(bytes(data)).variant == ""
    data[48] |= 0x8
    assert cubin.read_cubin(bytes(data)).variant == "a"


@pytest.mark.parametrize("data", [b"", b"\x7fELF", elf_file(), b"MZ" + bytes(100)])
def test_other_files_are_no_cubins(data: bytes) -> None:
    with pytest.raises(UnreadableError, match="not an ELF file for a GPU"):
        cubin.read_cubin(data)


def test_a_cut_cubin_is_damaged() -> None:
    whole = (FIXTURES / "cuda13-sm_120.cubin").read_bytes()
    with pytest.raises(UnreadableError, match="the table of sections is damaged"):
        cubin.read_cubin(whole[:1000])


def test_attributes_of_any_length_are_passed_over() -> None:
    data = elf_file(machine=CUDA, sections={
        ".nv.compat": b"\x04\x0b\x03\x00abc\x02\x09\x01\x00"})
    assert cubin.read_cubin(data).variant == "a"
    assert cubin.read_cubin(elf_file(machine=CUDA, sections={".nv.compat": b"\x04\x09"})
                            ).variant == ""


def test_the_machine_of_a_host_file() -> None:
    assert cubin.machine(elf_file()) == 183
    assert cubin.machine(b"\x7fELF\x01\x01" + bytes(100)) == 0


def test_a_cubin_that_describes_its_target_again_and_again_is_damaged() -> None:
    """Each of 65,000 sections could name the same 60 MB."""
    header = struct.pack("<IIQQQQIIQQ", 0, 1, 0, 0, 0, 1 << 60, 0, 0, 0, 0)
    names = b".nv.compat\0"
    table = bytearray(header * 20)
    struct.pack_into("<Q", table, 24, 64 + len(table))  # where the names lie
    data = bytearray(elf_file(machine=CUDA)[:64]) + table + names
    struct.pack_into("<Q", data, 40, 64)
    struct.pack_into("<HHH", data, 58, 64, 20, 0)
    with pytest.raises(UnreadableError, match="describes its target more than once"):
        cubin.read_cubin(bytes(data))
