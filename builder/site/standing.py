"""What became of a locked patch: as the labels of the image say that was tested of this lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.version import InvalidVersion, Version

from builder import labels as label
from builder.locking.lock import Lock, LockedPatch
from builder.matrix.cells import Cell
from builder.patches.revision import patched_version
from builder.record.models import Record


def standing(patch: LockedPatch, cell: Cell | None, lock: Lock, runs: Sequence[Record]) -> str:
    """Return a patch's standing in words; ``runs`` are those of the cell's images."""
    if patch.why:
        return f"not in the lock: {patch.why}"
    if any(patch.sha256 in wheel.patches for wheel in lock.compiled):
        return "compiled in"
    labels = next((run.labels for run in runs if run.labels.get(label.LOCK) == lock.digest), None)
    declared = cell.patches.get(patch.name) if cell else None
    if labels is None or declared is None:
        return "locked; no image of this lock has a record"
    if _applied(declared.tag(patch.name), patch.wheel, labels):
        return "applied in the tested image"
    return "left out of the tested image: not needed, or optional and failing"


def _applied(tag: str, wheel: str, labels: Mapping[str, str]) -> bool:
    """Say whether the patched version of a wheel names a patch, after ``sy``."""
    wanted = _parts(patched_version("1", [tag]))
    return set(wanted) <= set(_parts(labels.get(label.PATCHED + wheel, "")))


def _parts(version: str) -> list[str]:
    try:
        return (Version(version).local or "").partition("sy.")[2].split(".")
    except InvalidVersion:
        return []
