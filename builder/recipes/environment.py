"""Which wheel of a lock reads an environment variable? One that none reads does nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from builder.errors import LockError
from builder.locking.lock import Lock
from builder.recipes.wheel_sources import WheelSources
from builder.store.content_store import Store
from builder.store.looking import Looking

# Read by native libraries, the driver or the loader, not by Python: not checked.
NATIVE = re.compile(r"(NCCL|CUDA|GLOO|UCX|OMP|OMPI|MKL|LD|NVIDIA|CUBLAS|CUDNN|MALLOC|KMP)_|LD_")


def reads(sources: WheelSources, variable: str) -> bool:
    """Say whether the sources name the variable: as text, or as an attribute of ``envs``."""
    return re.search(rf"[\"'.]{re.escape(variable)}\b", sources.text) is not None


def reader(variable: str, lock: Lock, store: Store | Looking, first: Sequence[WheelSources]
           ) -> str | None:
    """Return the file of a wheel that reads ``variable``; None where no fetched one does.

    ``first`` are wheels already open; the others are tried from the smallest on.
    """
    for sources in first:
        if reads(sources, variable):
            return sources.wheel.name
    opened = {sources.wheel.name for sources in first}
    for wheel in sorted(lock.wheels, key=lambda wheel: wheel.size):
        path = store.find_wheel(wheel) if wheel.file not in opened else None
        if path is None:
            continue
        try:
            if reads(WheelSources(path), variable):
                return wheel.file
        except LockError:
            continue  # more Python than may be read, or damaged: the gate's matter
    return None
