"""Which GPUs a compiler knows that comes in a wheel: the names of architectures in its file.

Programs such as Triton's ``ptxas`` refuse what they do not know by name, so the name is in them:
that of triton 3.6.0 has ``sm_120a`` as its last, its ``ptxas-blackwell`` has ``sm_121a``.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

# Programs and libraries that compile GPU code at run time, and the source of one that is Python.
COMPILERS = ("*/bin/ptxas*", "*/nvvm/bin/cicc", "*/lib/libnvrtc.so.*", "*/lib/libnvvm.so.*",
             "*/lib/libnvJitLink.so.*", "*/cutlass/cute/nvgpu/warp/mma.py")
NAME = re.compile(rb"sm_(\d{2,3}[af]?)(?![\w])")
LONGEST_NAME = 16
MOST_NAMES = 200


def is_compiler(path: str) -> bool:
    """Say whether a file, by its path below site-packages, compiles GPU code."""
    return any(fnmatchcase(path, pattern) for pattern in COMPILERS)


class Names:
    """Collects the names of architectures from a file that comes in pieces."""

    def __init__(self) -> None:
        """Start with none."""
        self._found: set[str] = set()
        self._end = b""

    def feed(self, piece: bytes) -> None:
        """Search the next piece; a name may lie across two of them."""
        data = self._end + piece
        for match in NAME.finditer(data):
            if len(self._found) >= MOST_NAMES:
                return
            if match.end() < len(data):  # else it may go on in the next piece
                self._found.add(match[1].decode("ascii"))
        self._end = data[-LONGEST_NAME:]

    def sorted(self) -> tuple[str, ...]:
        """Return the names without ``sm_``: ``120a``."""
        self.feed(b"\0")
        return tuple(sorted(self._found, key=lambda name: (int(name.rstrip("af")), name)))
