"""Damaged bytes, new ones in every run: the readers end in a fact or their one error, in bounds.

The bytes that a reader was last given lie in the test's temporary folder; what failed belongs into
the unit tests as a case. A reader that hangs is ended by an alarm.
"""

from __future__ import annotations

import io
import os
import random
import signal
import struct
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from elf_files import elf_file, fatbin, make_wheel

from builder.binaries.cubin import read_cubin
from builder.binaries.elf import read_elf
from builder.binaries.fatbin import read_fatbin
from builder.binaries.metered import Metered, UnreadableError
from builder.binaries.wheel_facts import read_wheel

FIXTURES = Path(__file__).parents[1] / "fixtures" / "gate"
BUDGET_S = 8.0
HANGS_S = 120  # for a file of some kilobytes: an endless loop, not a slow machine
MOST_BYTES = 300 << 20
LIBRARY = elf_file(
    needed=["libc.so.6", "libx.so"], soname="libme.so.1", rpath="$ORIGIN/x:/y", weak=["w"],
    interpreter="/lib/ld.so", defined=["a", "b@ME_1"],
    undefined=["u", "w", "v@libc.so.6:GLIBC_2.17", "z@libx.so:X_1"],
    sections={".nv_fatbin": fatbin((2, 120, 0x100011), (1, 75, 0x11))})
EDGES = (0, 1, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 32, 1 << 40, 1 << 63, (1 << 64) - 1)


def mutated(dice: random.Random, data: bytes) -> bytes:
    """Return ``data`` with some bytes, numbers or a piece changed, mostly where headers lie."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4, 8))):
        near = dice.randrange(min(len(changed), dice.choice((64, 512, 4096, 1 << 30))))
        at = dice.choice((near, len(changed) - 1 - near))
        match dice.randrange(10):
            case 0 | 1 | 2:
                changed[at] = dice.randrange(256)
            case 8:
                del changed[at + 1:]
            case 9:
                del changed[at:at + dice.randrange(64)]
                changed = changed or bytearray(1)
            case _:
                form = dice.choice("HIQ")
                size = struct.calcsize(form)
                value = dice.choice((*EDGES, dice.randrange(2 * len(changed))))
                changed[at - at % size:at - at % size + size] = struct.pack(
                    f"<{form}", value % (1 << 8 * size))
    return bytes(changed)


def fuzz(folder: Path, originals: Sequence[bytes], read: Callable[[bytes], object]) -> None:
    """Read damaged forms of ``originals`` until the time is over."""
    seed = int.from_bytes(os.urandom(4), "little")
    dice, rounds, end = random.Random(seed), 0, time.monotonic() + BUDGET_S
    while time.monotonic() < end:
        data = mutated(dice, dice.choice(originals))
        kept = folder / "case"
        kept.write_bytes(data)
        tracemalloc.start()
        signal.alarm(HANGS_S)
        with suppress(UnreadableError):
            read(data)
        signal.alarm(0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MOST_BYTES, f"seed {seed}, round {rounds}: {kept}"
        rounds += 1
    assert rounds > 10


def test_elf_files(tmp_path: Path) -> None:
    originals = [LIBRARY, Path("/bin/sh").resolve().read_bytes()]
    fuzz(tmp_path, originals, lambda data: read_elf(data, "x.so"))


def test_fat_binaries_and_cubins(tmp_path: Path) -> None:
    originals = [path.read_bytes() for path in sorted(FIXTURES.iterdir())
                 if path.suffix in (".cubin", ".fatbin")]
    assert len(originals) > 5

    def read(data: bytes) -> None:
        read_fatbin(Metered(io.BytesIO(data)), 0, len(data))
        read_cubin(data)

    fuzz(tmp_path, originals, read)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_wheels(tmp_path: Path) -> None:
    cubin = (FIXTURES / "cuda13-sm_120f.cubin").read_bytes()
    members = {"thing/_C.so": LIBRARY, "thing/k.cubin": cubin, "thing/__init__.py": b"x = 1\n" * 9}
    originals = [make_wheel(tmp_path, members, compression=method).read_bytes()
                 for method in (0, 8)]
    target = tmp_path / "thing-1.0-py3-none-any.whl"

    def read(data: bytes) -> None:
        target.write_bytes(data)
        assert read_wheel(target, "").name

    fuzz(tmp_path, originals, read)
