"""Libraries around real GPU code, for tests of what is read from it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from elf_files import elf_file

CUBINS = Path(__file__).parents[1] / "fixtures" / "compiled_code"
EXACT, FAMILY, PTX, SASS = 0x100000, 0x200000, 1, 2
ALIGNMENT = 8
# The fixtures by name: architecture and the flags that fatbinary writes for its variant.
FLAGS = {"good-120f": (120, FAMILY), "good-121a": (121, EXACT), "exact-120a": (120, EXACT),
         "stub-121a": (121, EXACT), "trap-121a": (121, EXACT)}


def region(*entries: tuple[int, int, int, bytes]) -> bytes:
    """Return one region with an entry per (kind, architecture, flags, bytes)."""
    body = b""
    for kind, arch, flags, payload in entries:
        padded = payload.ljust(-(-len(payload) // ALIGNMENT) * ALIGNMENT, b"\0")
        body += struct.pack("<HHIQ12xI8xQ16x", kind, 0x101, 64, len(padded), arch, flags) + padded
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def cubin(name: str) -> bytes:
    """Return a fixture's bytes."""
    return (CUBINS / f"{name}.cubin").read_bytes()


def library(folder: Path, names: Sequence[str], *, extra: bytes = b"", name: str = "_C.so") -> Path:
    """Write a library with one region for each fixture; ``extra`` is host code."""
    regions = b"".join(region((SASS, *FLAGS[each], cubin(each))) for each in names)
    path = folder / name
    path.write_bytes(elf_file(sections={".nv_fatbin": regions, ".rodata": extra}))
    return path
