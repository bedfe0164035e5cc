"""Compiled wheels in a lock: in the place of the published ones, and kept when it is made again.

What was compiled is a fact like any other of a lock. It is dropped, and said, where the published
wheel or one of the patches in it is another one now.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.locking.lock import CompiledWheel, Lock, LockedWheel


def with_compiled(lock: Lock, entry: CompiledWheel, wheel: LockedWheel) -> Lock:
    """Return the lock with a compiled wheel in the place of the one of its name."""
    others = [each for each in lock.compiled if each.name != entry.name]
    return lock.model_copy(update={
        "wheels": tuple(wheel if each.name == entry.name else each for each in lock.wheels),
        "compiled": tuple(sorted([*others, entry], key=lambda each: each.name))})


def compiled_entry(published: LockedWheel, key: str, targets: Sequence[str],
                   patches: Sequence[str]) -> CompiledWheel:
    """Return what a lock says of a compiled wheel beside its own row."""
    return CompiledWheel(**published.model_dump(include=set(LockedWheel.model_fields)), key=key,
                         targets=tuple(targets), patches=tuple(patches))


def carry_over(old: Lock | None, new: Lock) -> tuple[Lock, list[str]]:
    """Return ``new`` with the compiled wheels of ``old`` that still fit, and the others' names."""
    dropped = []
    for entry in old.compiled if old else ():
        wheel, now = (lock.wheel(entry.name) for lock in (old, new) if lock)
        patches = {patch.sha256 for patch in new.patches if patch.wheel == entry.name}
        if wheel and now and now.sha256 == entry.sha256 and patches >= set(entry.patches):
            new = with_compiled(new, entry, wheel)
        else:
            dropped.append(entry.name)
    return new, dropped
