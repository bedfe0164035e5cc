"""Compile modules inside the base's own Python; sent there as text, standard library only.

Reads from file descriptor 0 and writes to 1, all numbers big-endian:

- in: count (u32); for each module its path's length (u32), its source's length (u32), both;
- out: length (u32) and text of ``<version> <cache tag>``; for each module, in the same order,
  the bytecode's length (u32) and the bytecode, or length 0 where it does not compile.

Bytecode is of the kind that PEP 552 calls checked-hash: Python compares it with the source's
hash at each import, so a module that was replaced or mounted over is never shadowed by it.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import struct
import sys
from importlib.machinery import SourceFileLoader

_CHECKED_HASH = 0b11  # flags of PEP 552: hash-based, check_source


def read_exactly(count: int) -> bytes:
    """Read ``count`` bytes and not one more: what follows is for the next process."""
    parts = []
    while count:
        part = os.read(0, min(count, 1 << 20))
        if not part:
            sys.exit(1)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def bytecode(source: bytes, path: str) -> bytes:
    """Return the file that ``py_compile`` would write for ``path``, or nothing.

    As for an installer, a file that does not compile (a template, test data) is no error.
    """
    try:
        code = SourceFileLoader("<bytecode>", path).source_to_code(source, path)
    except Exception:  # noqa: BLE001 - whatever the compiler says of any file, the answer is none
        return b""
    head = importlib.util.MAGIC_NUMBER + struct.pack("<I", _CHECKED_HASH)
    return head + importlib.util.source_hash(source) + marshal.dumps(code)


def main() -> None:
    """Compile one wheel's modules."""
    with open(1, "wb", closefd=False) as out:
        version = ".".join(str(part) for part in sys.version_info[:3])
        hello = f"{version} {sys.implementation.cache_tag}".encode()
        out.write(struct.pack(">I", len(hello)) + hello)
        out.flush()
        for _ in range(struct.unpack(">I", read_exactly(4))[0]):
            path_size, source_size = struct.unpack(">II", read_exactly(8))
            path = read_exactly(path_size).decode()
            done = bytecode(read_exactly(source_size), path)
            out.write(struct.pack(">I", len(done)) + done)


if __name__ == "__main__":
    main()
