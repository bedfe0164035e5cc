"""Machine code of recent GPUs, as far as two questions go: what a kernel uses, whether it runs.

Instructions since Volta have 16 bytes; the low 9 bits name the operation, the 3 above them the form
of its operands. The few names below were found by comparing with NVIDIA's ``nvdisasm``, which
``tests/integration/test_compiled_code.py`` does again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from builder.binaries.cubin_sections import sections
from builder.binaries.metered import UnreadableError

INSTRUCTION_BYTES = 16
OPERATION = 0x1FF
# Matrix instructions by the numbers that they take: half, integer, 8-bit and 4-bit floating point.
NAMES = {0x03C: "HMMA", 0x037: "IMMA", 0x07A: "QMMA", 0x07F: "OMMA"}
EXIT, TRAP = 0x14D, 0x15C
NAME_BYTES = 400
TEXT = b".text."


@dataclass(frozen=True)
class Kernel:
    """One function of a cubin: its mangled name, bytes, matrix instructions, whether it only traps.

    ``trap_only`` means that it stops the GPU's context and has no way to end well.
    """

    name: str
    size: int
    instructions: Counter[str]
    trap_only: bool


def kernels(cubin: bytes) -> tuple[Kernel, ...]:
    """Return the functions of a cubin; raises UnreadableError for one that is damaged."""
    try:
        found = [(name, at, size) for name, at, size in sections(cubin, NAME_BYTES)
                 if name.startswith(TEXT)]
    except (ValueError, IndexError) as error:
        raise UnreadableError(f"the GPU code is damaged: {error}") from error
    return tuple(_kernel(name, cubin[at:at + size]) for name, at, size in found)


def _kernel(name: bytes, code: bytes) -> Kernel:
    words = memoryview(code[:len(code) - len(code) % INSTRUCTION_BYTES]).cast("H")
    counts = Counter(word & OPERATION for word in words[::INSTRUCTION_BYTES // 2].tolist())
    return Kernel(
        name.removeprefix(TEXT).decode("ascii", "backslashreplace"), len(code),
        Counter({NAMES[number]: counts[number] for number in NAMES if counts[number]}),
        bool(counts[TRAP]) and not counts[EXIT])
