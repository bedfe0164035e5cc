"""GPU code that loads and refuses to run: kernels that print a message and stop.

vLLM guards kernels with ``enable_sm120_only``, CUTLASS its instructions with the architectures that
have them. What is compiled for another target is then a stub: it passes every check of
architectures and fails at the first call. A stub is told by its message, and by its size: of vLLM
0.32.0, all 72 kernels of the kind have 384 bytes, and real ones of such files many thousand.
Only machine code is searched: PTX keeps its messages as numbers.
"""

from __future__ import annotations

import re

import zstandard

from builder.binaries.cubin_sections import sections
from builder.binaries.facts import Form, Stub
from builder.binaries.metered import UnreadableError

# https://github.com/vllm-project/vllm/blob/main/csrc/cutlass_extensions/common.hpp and
# https://github.com/NVIDIA/cutlass/blob/main/include/cute/config.hpp
MESSAGE = re.compile(rb"This kernel only supports? sm[ -~]{0,60}"
                     rb"|Arch conditional MMA instruction used without[ -~]{0,90}")
STUB_BYTES = 2048  # the most that a kernel which only prints and stops takes
FAMILY_OF_SPARK = 12
ZSTD, PACKED = 0x8000, 0xF000  # flags of an entry
MAX_UNPACKED = 64 << 20  # of one entry
MAX_PACKED = 128 << 20  # of all entries of one file that are looked into; torch's have 56 MB
MAX_UNPACKED_IN_ALL = 4 << 30  # torch has 1.0 GB; tiny entries that unpack to much end, too
MAX_STUBS = 200
NAME_BYTES = 400
TEXT = b".text."


class Looking:
    """Looks into the entries of one file and keeps the stubs."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self.stubs: tuple[Stub, ...] = ()
        self._left, self._unpacked_left = MAX_PACKED, MAX_UNPACKED_IN_ALL

    def wants(self, form: Form, arch: int, size: int) -> bool:
        """Say whether an entry is to be looked into: machine code for the family of a Spark."""
        return (form is Form.SASS and arch // 10 == FAMILY_OF_SPARK and size <= self._left
                and self._unpacked_left > 0 and len(self.stubs) < MAX_STUBS)

    def look(self, code: str, payload: bytes, flags: int) -> None:
        """Look into one entry; what cannot be unpacked is passed over."""
        self._left -= len(payload)
        cubin = unpacked(payload, flags)
        self._unpacked_left -= len(cubin or b"")
        found = stub_of(code, cubin) if cubin else None
        if found:
            self.stubs = (*self.stubs, found)


def unpacked(payload: bytes, flags: int) -> bytes | None:
    """Return an entry's cubin; None where it is packed in another way than zstd, or damaged."""
    if not flags & PACKED:
        return payload
    if not flags & ZSTD:
        return None
    try:
        with zstandard.ZstdDecompressor().stream_reader(payload) as reader:
            return reader.read(MAX_UNPACKED)
    except zstandard.ZstdError:
        return None


def stub_of(code: str, cubin: bytes) -> Stub | None:
    """Return what a cubin's kernels print, if they do nothing else."""
    message = MESSAGE.search(cubin)
    if message is None:
        return None
    try:
        kernels = [(name, size) for name, _, size in sections(cubin, NAME_BYTES)
                   if name.startswith(TEXT)]
    except (UnreadableError, ValueError, IndexError):
        return None
    if not kernels or max(size for _, size in kernels) > STUB_BYTES:
        return None
    name = kernels[0][0].removeprefix(TEXT).decode("ascii", "backslashreplace")
    return Stub(code, message[0].decode("ascii").strip(), name, len(kernels))
