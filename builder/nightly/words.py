"""How a lock differs from the one before it, in words for people: versions, sizes, patches."""

from __future__ import annotations

from builder import console
from builder.locking.lock import Lock

MOST = 30  # changed packages that are named


def difference(old: Lock | None, new: Lock) -> list[str]:
    """Return what changed, a line each; nothing where both make the same image."""
    if old is None:
        return [f"the first lock: {len(new.wheels)} wheels, {console.size(new.size)}"]
    if old.digest == new.digest:
        return []
    return [*_versions(old, new), *_patches(old, new), _size(old, new)]


def _versions(old: Lock, new: Lock) -> list[str]:
    before = {wheel.name: wheel.version for wheel in old.wheels}
    after = {wheel.name: wheel.version for wheel in new.wheels}
    lines = []
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was is None:
            lines.append(f"{name} {now} is new")
        elif now is None:
            lines.append(f"{name} {was} is gone")
        elif was != now:
            lines.append(f"{name} {was} -> {now}")
    more = len(lines) - MOST
    return lines[:MOST] + ([f"and {more} more"] if more > 0 else [])


def _patches(old: Lock, new: Lock) -> list[str]:
    before = {patch.name: patch.sha256 for patch in old.patches}
    after = {patch.name: patch.sha256 for patch in new.patches}
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            lines.append(f"patch {name} is no longer needed")
        elif name not in before:
            lines.append(f"patch {name} is new")
        elif before[name] != after[name]:
            lines.append(f"patch {name} has another diff")
    return lines


def _size(old: Lock, new: Lock) -> str:
    there = {wheel.sha256 for wheel in old.wheels}
    fetched = sum(wheel.size for wheel in new.wheels if wheel.sha256 not in there)
    return (f"wheels {console.size(old.size)} -> {console.size(new.size)}, "
            f"{console.size(fetched)} of them new")
