"""How a base's lock differs from the one before it, in words: packages, Python, size."""

from __future__ import annotations

from collections.abc import Iterator

from builder import console
from builder.locking.base_lock import LockedBase

MOST = 30  # changed packages that are named


def difference(old: LockedBase | None, new: LockedBase) -> list[str]:
    """Return what changed, a line each; nothing where both are asked for and hold the same.

    When it was locked, and where its image came from, do not count.
    """
    if old is None:
        return [f"the first lock: {len(new.packages)} packages, {console.size(_bytes(new))}"]
    packages = list(_packages(old, new))
    lines = packages[:MOST] + ([f"and {len(packages) - MOST} more"] if len(packages) > MOST else [])
    if old.recipe != new.recipe:
        lines.append("its recipe has changed")
    lines += [f"{what} {was} -> {now}" for what, was, now in (
        ("Python", old.python, new.python), ("glibc", old.glibc, new.glibc)) if was != now]
    if lines:
        lines.append(f"packages {console.size(_bytes(old))} -> {console.size(_bytes(new))}")
    return lines


def _packages(old: LockedBase, new: LockedBase) -> Iterator[str]:
    before = {(deb.name, deb.arch): deb for deb in old.packages}
    after = {(deb.name, deb.arch): deb for deb in new.packages}
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        if was is None and now is not None:
            yield f"{now.name} {now.version} is new"
        elif now is None and was is not None:
            yield f"{was.name} {was.version} is gone"
        elif was and now and was.version != now.version:
            yield f"{now.name} {was.version} -> {now.version}"
        elif was and now and was.sha256 != now.sha256:
            yield f"{now.name} {now.version} has other bytes"


def _bytes(base: LockedBase) -> int:
    return sum(deb.size for deb in base.packages)
