"""A cubin, the ELF file of a GPU: its architecture and variant, from its header and notes.

The architecture lies in the header's flags: bits 8 to 15 since version 8 of CUDA's ELF ABI, bits 0
to 7 before. Arch-exact code (``sm_121a``) has a flag there (LLVM's ``EF_CUDA_ACCELERATORS``) as
CUDA 12 writes it; CUDA 13 says so in the section ``.nv.compat`` instead (attribute 9, the
accelerator target). Code for a family (``sm_120f``) differs from plain code in nothing but the
assembler's command line, kept in the section ``.note.nv.tkinfo``. Found by comparing what
NVIDIA's ``ptxas`` 12.8 and 13.0 write for each target.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from builder.binaries.cubin_sections import sections
from builder.binaries.facts import Form
from builder.binaries.fatbin import Entry
from builder.binaries.metered import UnreadableError

MACHINE = 190  # EM_CUDA
HEADER_SIZE = 64
_HEADER = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")
_ABI_V8 = 8
_ACCELERATORS_V7, _ACCELERATORS_V8 = 0x800, 0x8
_ACCELERATOR_TARGET = 9
_TARGET = re.compile(rb"-arch[ =]+(?:sm|compute)_\d+([af]?)\b")
_MAX_NAME = 64
_MAX_TOLD = 8  # sections that tell the target; one of each kind in honest files
_MAX_BODY = 1 << 16  # honest ones have some hundred bytes


def machine(head: bytes) -> int:
    """Return the machine number of a 64-bit little-endian ELF file's first bytes, or 0."""
    if len(head) < HEADER_SIZE or head[:6] != b"\x7fELF\x02\x01":
        return 0
    return int.from_bytes(head[18:20], "little")


def read_cubin(data: bytes) -> Entry:
    """Return the architecture and variant of a cubin; raise UnreadableError if it is none."""
    if machine(data) != MACHINE:
        raise UnreadableError("not an ELF file for a GPU")
    flags, = struct.unpack_from("<I", data, 48)
    newer = data[8] >= _ABI_V8
    arch = flags >> 8 & 0xFF if newer else flags & 0xFF
    exact = flags & (_ACCELERATORS_V8 if newer else _ACCELERATORS_V7)
    return Entry(Form.SASS, arch, "a" if exact else _noted_variant(data), len(data))


def _noted_variant(data: bytes) -> str:
    variant = ""
    for name, body in _sections(data):
        if name == b".nv.compat" and _attribute(body, _ACCELERATOR_TARGET):
            return "a"
        if name == b".note.nv.tkinfo" and (target := _TARGET.search(body)):
            variant = target[1].decode()
    return variant


def _attribute(body: bytes, wanted: int) -> int:
    """Return a one-byte attribute of ``.nv.compat``: format, number, then what the format says."""
    at = 0
    while at + 4 <= len(body):
        form, number = body[at], body[at + 1]
        if number == wanted:
            return body[at + 2]
        # format 4 is followed by so many bytes as its u16 says, the others by a value in place
        at += 4 + (int.from_bytes(body[at + 2:at + 4], "little") if form == 4 else 0)
    return 0


def _sections(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield name and contents of the sections that are told by name."""
    told = 0
    for name, at, size in sections(data, _MAX_NAME):
        if name in (b".nv.compat", b".note.nv.tkinfo"):
            told += 1
            if told > _MAX_TOLD:
                raise UnreadableError("it describes its target more than once")
            yield name, data[at:at + min(size, _MAX_BODY)]
