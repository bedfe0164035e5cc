"""The key of a compile: the digest of all that its bytes depend on, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from builder.layers.distinfo import fingerprint
from builder.locking.base_lock import LockedBase
from builder.locking.lock import LockedWheel
from builder.matrix.cells import Cell
from builder.patches.apply import Blob
from builder.wheels.recipe import Recipe

FORMAT = 1  # raise it when equal inputs are to be compiled again
SHORT = 8  # hex digits of a key in a version


def order_key(cell: Cell, recipe: Recipe, version: str, targets: tuple[str, ...],
              changes: Mapping[str, Blob | None], torch: LockedWheel | None, base: LockedBase,
              compiler: str) -> str:
    """Return the key: 64 hex digits.

    Patches enter by the sources that they leave, so one that was exported again, or has another
    comment in its message, is the same. ``compiler`` is the compiler's own fingerprint.
    """
    inputs = {
        "format": FORMAT, "recipe": recipe.inputs(version, targets), "version": version,
        "changes": [[path, fingerprint([blob.data]) if blob else None]
                    for path, blob in sorted(changes.items())],
        "torch": torch.sha256 if torch else None, "cuda": cell.cuda, "platform": cell.platform,
        "python": base.python, "base": base.image_id, "compiler": compiler,
    }
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def short(key: str) -> str:
    """Return the key as a part of a local version, where a part of digits would lose its zeros."""
    return f"k{key[:SHORT]}"
