"""Damaged forms of whole files, for fuzz tests: bytes, numbers and pieces changed near headers.

``SPARKYARD_FUZZ_EXAMPLES`` says how many forms each fuzz test reads (default 200). A longer run:
``SPARKYARD_FUZZ_EXAMPLES=100000 ./nox -s tests -- tests/integration/test_gate_fuzz.py``.
"""

from __future__ import annotations

import os
import signal
import struct
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("SPARKYARD_FUZZ_EXAMPLES", "200"))
FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
HANGS_S = 120  # for a file of some kilobytes: an endless loop, not a slow machine
MOST_BYTES = 300 << 20
EDGES = (0, 1, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 32, 1 << 40, 1 << 63, (1 << 64) - 1)
# Where a change is made: mostly in the first or last bytes, where formats have their headers.
PLACES = st.one_of(*(st.integers(-size, size - 1) for size in (64, 512, 4096, 1 << 24)))
NUMBERS = st.one_of(st.sampled_from(EDGES), st.integers(0, 1 << 16), st.integers(0, (1 << 64) - 1))


@st.composite
def damaged(draw: st.DrawFn, originals: Sequence[bytes]) -> bytes:
    """Draw one of the originals with one to eight changes."""
    data = bytearray(draw(st.sampled_from(list(originals))))
    for _ in range(draw(st.integers(1, 8))):
        at = draw(PLACES) % max(len(data), 1)
        match draw(st.sampled_from(("byte", "number", "number", "number", "cut", "remove"))):
            case "byte":
                data[at:at + 1] = bytes([draw(st.integers(0, 255))])
            case "cut":
                del data[at + 1:]
            case "remove":
                del data[at:at + draw(st.integers(1, 64))]
            case _:
                form = draw(st.sampled_from("HIQ"))
                size = struct.calcsize(form)
                at -= at % size
                data[at:at + size] = struct.pack(f"<{form}", draw(NUMBERS) % (1 << 8 * size))
    return bytes(data)


@contextmanager
def within_bounds() -> Iterator[None]:
    """Fail where the block takes more memory, or time, than a small file can need."""
    def hangs(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"the reader did not end within {HANGS_S} s")

    previous = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANGS_S)
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    assert peak < MOST_BYTES, f"{peak} bytes at once"
