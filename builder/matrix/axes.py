"""The axes of the matrix: their names, what a value may look like, and its part of a cell's id."""

from __future__ import annotations

import re
from typing import Any

AXES = ("base", "torch", "vllm", "flashinfer", "transformers")
VERSION_AXES = AXES[1:]


def slug(spec: str) -> str:
    """Make a specifier fit for a cell id: ``>=5.5.1`` is ``5.5.1``, ``*`` is ``any``."""
    return re.sub(r"[^a-z0-9.]+", "-", spec.lower()).strip("-.") or "any"


def values(raw: Any) -> Any:
    """Read an axis as written (a value, a table or a list of both) as a list of tables."""
    items = raw if isinstance(raw, list | tuple) else [raw]
    return [{"spec": item} if isinstance(item, str) else item for item in items]


def names(raw: Any) -> Any:
    """Read one name or a list of names as a list."""
    return [raw] if isinstance(raw, str) else raw
