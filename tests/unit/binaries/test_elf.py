"""ELF files: what is read from them, and the damaged ones that end in an error."""

from __future__ import annotations

import io
import struct
import sys
from pathlib import Path

import pytest
from elf_files import NOBITS, SECTION_SIZE, X86_64, elf_file, fatbin

from builder.binaries import elf
from builder.binaries.elf import read_elf
from builder.binaries.facts import Damage, Symbol
from builder.binaries.metered import UnreadableError


def section_header(data: bytes, number: int) -> int:
    start, = struct.unpack_from("<Q", data, 40)
    return int(start) + number * SECTION_SIZE


def contents(data: bytes, number: int) -> int:
    """Return where the section's contents begin: 2 symbols, 4 versions asked for, 6 dynamic."""
    return int.from_bytes(data[section_header(data, number) + 24:][:8], "little")


def patched(data: bytes, at: int, form: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    return bytes(changed)


def test_what_a_loader_goes_by() -> None:
    facts = read_elf(elf_file(needed=["libc.so.6", "libx.so"], soname="libme.so.1",
                              rpath="$ORIGIN/../lib:/opt/lib", runpath="$ORIGIN"), "a/libme.so")
    assert (facts.path, facts.machine, facts.kind) == ("a/libme.so", "aarch64", "dyn")
    assert facts.needed == ("libc.so.6", "libx.so")
    assert facts.soname == "libme.so.1"
    assert facts.rpath == ("$ORIGIN/../lib", "/opt/lib")
    assert facts.runpath == ("$ORIGIN",)
    assert facts.cuda == facts.damage == facts.defined == facts.undefined == ()


def test_programs_have_an_interpreter() -> None:
    facts = read_elf(elf_file(machine=X86_64, kind=2, interpreter="/lib64/ld.so"), "bin/x")
    assert (facts.interpreter, facts.machine, facts.kind) == ("/lib64/ld.so", "x86_64", "exec")


def test_symbols_with_their_versions() -> None:
    facts = read_elf(elf_file(
        defined=["plain", "new@ME_2", "old@ME_1"], weak=["may"],
        undefined=["u", "memcpy@libc.so.6:GLIBC_2.17", "may", "x@libx.so:X_1"]), "x")
    assert set(facts.defined) == {
        Symbol("plain"), Symbol("new", "ME_2"), Symbol("old", "ME_1")}
    assert set(facts.undefined) == {Symbol("u"), Symbol("memcpy", "GLIBC_2.17"),
                                    Symbol("may", weak=True), Symbol("x", "X_1")}
    assert facts.needed_versions == (("libc.so.6", ("GLIBC_2.17",)), ("libx.so", ("X_1",)))
    assert set(facts.defined_versions) == {"base", "ME_1", "ME_2"}


def test_a_weak_version_is_not_asked_for() -> None:
    data = elf_file(undefined=["a@libc.so.6:GLIBC_2.17"])
    facts = read_elf(patched(data, contents(data, 4) + 16 + 4, "<H", 2), "x")
    assert facts.needed_versions == (("libc.so.6", ()),)
    assert facts.undefined == (Symbol("a", "GLIBC_2.17"),)


def test_local_and_hidden_symbols_are_left_out() -> None:
    data = elf_file(defined=["mine", "hidden"])
    table = contents(data, 2)
    local = patched(data, table + 24 + 4, "<B", 0)
    assert read_elf(local, "x").defined == (Symbol("hidden"),)
    assert read_elf(patched(local, table + 48 + 5, "<B", 2), "x").defined == ()


def test_gpu_code_and_its_damage() -> None:
    whole = fatbin((2, 120, 0), (2, 121, 0x100000))
    facts = read_elf(elf_file(sections={".nv_fatbin": whole, "__nv_relfatbin": whole[:-8]}), "x.so")
    assert [code.name for code in facts.cuda] == ["sm_120", "sm_121a"]
    assert [code.name for code in facts.cuda_to_link] == ["sm_120"]
    assert facts.damage == (
        Damage("fatbin-damaged", "x.so", facts.damage[0].detail),)
    assert "__nv_relfatbin: the entry at byte" in facts.damage[0].detail


def test_a_file_of_debugging_information_has_no_contents() -> None:
    data = elf_file(defined=["a"], needed=["x"], sections={".nv_fatbin": fatbin((2, 120, 0))})
    for number in (2, 6, 8):
        data = patched(data, section_header(data, number) + 4, "<I", NOBITS)
    facts = read_elf(data, "x.debug")
    assert facts.kind == "debug"
    assert facts.defined == facts.needed == facts.cuda == facts.damage == ()


def test_without_sections_something_is_missing() -> None:
    data = patched(patched(elf_file(), 60, "<H", 0), 40, "<Q", 0)
    assert [one.code for one in read_elf(data, "x").damage] == ["elf-damaged"]


def test_other_classes_are_named_and_left() -> None:
    header = struct.pack("<4sBBBB8xHHIIIIIHHHHHH", b"\x7fELF", 1, 1, 1, 0, 3, 3, 1, 0, 0, 0, 0, 52,
                         32, 0, 40, 0, 0)
    facts = read_elf(header, "x32.so")
    assert (facts.machine, facts.needed) == ("386", ())


@pytest.mark.parametrize("data", [b"", b"\x7fEL", b"#!/bin/sh\n", b"PK\3\4" + bytes(100)])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableError, match="not an ELF file"):
        read_elf(data, "x")


def symbols_behind_the_end(data: bytes) -> bytes:
    return patched(data, section_header(data, 2) + 32, "<Q", 1 << 62)


def names_behind_the_table(data: bytes) -> bytes:
    return patched(data, contents(data, 2) + 24, "<I", 0xFFFFFFF0)


def too_many_sections(data: bytes) -> bytes:
    return patched(patched(data, 60, "<H", 0), section_header(data, 0) + 32, "<Q", 1 << 60)


def versions_in_a_circle(data: bytes) -> bytes:
    data = patched(data, section_header(data, 4) + 44, "<I", 0xFFFFFFFF)
    return patched(data, contents(data, 4) + 12, "<I", 0)  # the next one is the same again


@pytest.mark.parametrize("damage", [
    symbols_behind_the_end, names_behind_the_table, too_many_sections, versions_in_a_circle,
    lambda data: data[:70], lambda data: data[:len(data) // 2],
    lambda data: patched(data, 40, "<Q", 1 << 63), lambda data: patched(data, 62, "<H", 0xFFF0),
])
def test_absurd_headers_end_in_an_error(damage: object) -> None:
    whole = elf_file(defined=["a", "b"], undefined=["c@libc.so.6:GLIBC_2.17"], needed=["libc.so.6"])
    assert callable(damage)
    with pytest.raises(UnreadableError):
        read_elf(damage(whole), "x")


def test_names_cannot_blow_up() -> None:
    """A million symbols that share one long name would need more memory than the file."""
    long = "x" * 100_000
    data = elf_file(defined=[long, *("y" * 60)])
    table = contents(data, 2)
    for number in range(2, 61):
        data = patched(data, table + 24 * number, "<I", 1)
    with pytest.raises(UnreadableError, match="longer than the table of names"):
        read_elf(data, "x")


def test_a_real_program() -> None:
    path = Path(sys.executable).resolve()
    with path.open("rb") as stream:
        facts = read_elf(stream, path.name)
    assert any(name.startswith("libc.so") for name in facts.needed)
    assert "ld-linux" in facts.interpreter
    assert any(one.name == "Py_BytesMain" for one in (*facts.defined, *facts.undefined))
    assert any(one.version.startswith("GLIBC_") for one in facts.undefined)
    assert read_elf(memoryview(path.read_bytes()), path.name) == facts
    assert read_elf(io.BytesIO(path.read_bytes()), path.name) == facts


@pytest.mark.parametrize(("limit", "value"), [("MAX_SYMBOLS", 1), ("_MAX_NAMES", 3)])
def test_more_symbols_than_any_library_has(monkeypatch: pytest.MonkeyPatch, limit: str, value: int
                                           ) -> None:
    data = elf_file(defined=["a", "b"])
    assert len(read_elf(data, "x").defined) == 2
    monkeypatch.setattr(elf, limit, value)
    with pytest.raises(UnreadableError, match="bytes, more than"):
        read_elf(data, "x")
