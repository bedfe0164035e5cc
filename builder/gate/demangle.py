"""C++ names as people write them: ``at::cuda::getCurrentCUDABlasHandle()``.

The C++ library that a host has anyway does it (through ``cxxfilt``); where there is none, names
stay as the linker has them.
"""

from __future__ import annotations

import cxxfilt


def demangle(name: str) -> str:
    """Return the readable form of a symbol's name, or the name itself."""
    try:
        return str(cxxfilt.demangle(name))
    except (cxxfilt.Error, OSError):
        return name
