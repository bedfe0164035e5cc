"""Libraries with fat binaries, made byte by byte: for tests of the lean stage."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

REGION = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQ12xI8xQ16x")
MAGIC = 0xBA55ED50
PTX, SASS, LTO = 1, 2, 64
EXACT, FAMILY = 0x100000, 0x200000
PAGE = 1 << 16
BASE = 2 * PAGE  # where the section of fat binaries begins, in the file and in memory


@dataclass(frozen=True)
class Code:
    """An entry to be made: kind, architecture, flags and payload."""

    kind: int
    arch: int
    flags: int = 0
    payload: bytes = b"code" * 4


def entry(code: Code) -> bytes:
    """Return one entry; its payload is padded to 8 bytes."""
    payload = code.payload + bytes(-len(code.payload) % 8)
    return ENTRY.pack(code.kind, 0x101, ENTRY.size, len(payload), code.arch, code.flags) + payload


def region(*codes: Code) -> bytes:
    """Return one region with its entries, aligned to 256 bytes as NVIDIA's tools do."""
    body = b"".join(map(entry, codes))
    whole = REGION.pack(MAGIC, 1, REGION.size, len(body)) + body
    return whole + bytes(-len(whole) % 256)


@dataclass
class Library:
    """An aarch64 library to be made: regions, how many of them are referred to, debug bytes."""

    regions: Sequence[bytes]
    referred: int | None = None
    debug: bytes = b""
    sections: list[tuple[str, int, int, int, int, int]] = field(default_factory=list)

    def build(self) -> bytes:
        """Return the ELF file: one segment of code, one of data behind it, debug sections last."""
        fat = b"".join(self.regions)
        starts, at = [], BASE
        for each in self.regions:
            starts.append(at)
            at += len(each)
        rela = b"".join(struct.pack("<QQq", 8 * number, 1027, start)
                        for number, start in enumerate(starts[:self.referred]))
        data_at = -(-(BASE + len(fat)) // PAGE) * PAGE
        image = bytearray(data_at + 64 + len(rela))
        image[BASE:BASE + len(fat)] = fat
        image[data_at:data_at + 64] = b"DATA" * 16
        image[data_at + 64:] = rela
        loaded_end = len(image)
        names = b"\0.nv_fatbin\0.data\0.rela.dyn\0.symtab\0.shstrtab\0"
        debug_at = len(image)
        image += self.debug
        names_at = len(image)
        image += names
        heads = [(0,) * 10,
                 (names.index(b".nv_fatbin"), 1, 2, BASE, BASE, len(fat), 0, 0, 256, 0),
                 (names.index(b".data"), 1, 3, data_at, data_at, 64, 0, 0, 8, 0),
                 (names.index(b".rela.dyn"), 4, 2, data_at + 64, data_at + 64, len(rela), 0, 0, 8,
                  24)]
        if self.debug:
            heads.append((names.index(b".symtab"), 1, 0, 0, debug_at, len(self.debug), 0, 0, 8, 0))
        heads.append((names.index(b".shstrtab"), 3, 0, 0, names_at, len(names), 0, 0, 1, 0))
        image += bytes(-len(image) % 8)
        table = len(image)
        image += b"".join(struct.pack("<IIQQQQIIQQ", *head) for head in heads)
        segments = [(1, 5, 0, 0, 0, BASE + len(fat), BASE + len(fat), PAGE),
                    (1, 6, data_at, data_at, data_at, loaded_end - data_at,
                     loaded_end - data_at + 4096, PAGE)]
        image[:64] = struct.pack(
            "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), 3, 183, 1, 0, 64, table, 0, 64,
            56, len(segments), 64, len(heads), len(heads) - 1)
        for number, segment in enumerate(segments):
            struct.pack_into("<IIQQQQQQ", image, 64 + 56 * number, *segment)
        return bytes(image)


def memory_image(data: bytes) -> bytes:
    """Load a library as a loader would: every segment at its address, the rest of it zero."""
    count = struct.unpack_from("<H", data, 56)[0]
    table = struct.unpack_from("<Q", data, 32)[0]
    segments = [struct.unpack_from("<IIQQQQQQ", data, table + 56 * number)
                for number in range(count)]
    loads = [segment for segment in segments if segment[0] == 1]
    image = bytearray(max(address + memory for _, _, _, address, _, _, memory, _ in loads))
    for _, _, offset, address, _, size, memory, alignment in loads:
        assert offset % alignment == address % alignment, "a loader refuses such a segment"
        assert size <= memory
        image[address:address + size] = data[offset:offset + size]
    return bytes(image)
