"""One file of an image, read once as it comes: its hash, and what a loader or GPU would go by."""

from __future__ import annotations

import hashlib
import tempfile
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import IO, BinaryIO, cast

from builder.binaries import cubin
from builder.binaries.elf import MAGIC, read_elf
from builder.binaries.facts import Code, Damage, ElfFacts
from builder.binaries.fatbin import MAGIC as FAT_MAGIC
from builder.binaries.fatbin import read_fatbin, summed
from builder.binaries.metered import Metered, UnreadableError

CHUNK_BYTES = 1 << 20
IN_MEMORY_BYTES = 24 << 20  # larger files that are looked into go to a temporary one
CUBIN_LIMIT = 256 << 20  # far beyond any kernel; what is behind it is not read
_FAT_MAGIC = FAT_MAGIC.to_bytes(4, "little")


@dataclass
class Content:
    """One file: the sha256 of its bytes as RECORD spells it, its size, and what is in it."""

    digest: str
    size: int
    elf: ElfFacts | None = None
    code: tuple[Code, ...] = ()
    damage: Damage | None = None


def read_content(data: IO[bytes], path: str, scratch: str | None) -> Content:
    """Hash a file, and look into one that is a library or GPU code; it is read once."""
    first = data.read(CHUNK_BYTES)
    state, size = hashlib.sha256(first), len(first)
    wanted = first.startswith((MAGIC, _FAT_MAGIC))
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=scratch) as kept:
        chunk = first
        while chunk:
            if wanted:
                kept.write(chunk)
            if chunk := data.read(CHUNK_BYTES):
                state.update(chunk)
                size += len(chunk)
        content = Content(urlsafe_b64encode(state.digest()).decode().rstrip("="), size)
        if wanted:
            _look_into(content, cast(BinaryIO, kept), path)
    return content


def _look_into(content: Content, kept: BinaryIO, path: str) -> None:
    kept.seek(0)
    head = kept.read(cubin.HEADER_SIZE)
    kept.seek(0)
    try:
        if head.startswith(_FAT_MAGIC):
            data = Metered(kept)
            found = read_fatbin(data, 0, data.size)
            content.code = tuple(found.code)
            content.damage = (Damage("fatbin-damaged", path, found.damage) if found.damage
                              else None)
        elif cubin.machine(head) == cubin.MACHINE:
            content.code = tuple(summed([cubin.read_cubin(kept.read(CUBIN_LIMIT))]))
        else:
            content.elf = read_elf(kept, path)
            content.damage = next(iter(content.elf.damage), None)
    except UnreadableError as error:
        content.damage = Damage("elf-damaged", path, str(error))
