"""All GPU code of one library: its entries with their kernels, unpacked and read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from builder.binaries.facts import Code, Form
from builder.binaries.fatbin import SECTION, TO_LINK, entries
from builder.binaries.metered import Metered, UnreadableError
from builder.binaries.sass import Kernel, kernels
from builder.binaries.stubs import FAMILY_OF_SPARK, MESSAGE, unpacked


@dataclass(frozen=True)
class GpuCode:
    """One entry of a fat binary: ``name`` is ``sm_120f`` or ``compute_80``.

    ``kernels`` and ``message``, a refusal to run in its text, are of machine code for the family of
    a Spark; ``cubin`` are its bytes.
    """

    name: str
    region: int
    kernels: tuple[Kernel, ...] = ()
    message: str = ""
    cubin: bytes = b""


def read_gpu_code(path: Path) -> tuple[GpuCode, ...]:
    """Return the GPU code of a library; raises UnreadableError for what cannot be read."""
    try:
        with path.open("rb") as stream:
            found = [(section["sh_offset"], section["sh_size"])
                     for section in ELFFile(stream).iter_sections()
                     if section.name in (SECTION, TO_LINK) and section["sh_type"] != "SHT_NOBITS"]
        with path.open("rb") as stream:
            data = Metered(stream)
            return tuple(code for start, size in found for code in _codes(data, start, size))
    except (ELFError, OSError) as error:
        raise UnreadableError(f"{path.name} is not a library that can be read: {error}") from error


def _codes(data: Metered, start: int, size: int) -> Iterator[GpuCode]:
    for entry, region, at, flags in entries(data, start, size):
        name = Code(entry.form, entry.arch, entry.variant, 1, entry.size).name
        if entry.form is not Form.SASS or entry.arch // 10 != FAMILY_OF_SPARK:
            yield GpuCode(name, region)
            continue
        cubin = unpacked(data.exactly(at, entry.size, "GPU code"), flags)
        if cubin is None:
            raise UnreadableError(f"the {name} code at byte {at} is packed in an unknown way")
        message = MESSAGE.search(cubin)
        yield GpuCode(name, region, kernels(cubin),
                      message[0].decode("ascii").strip() if message else "", cubin)
