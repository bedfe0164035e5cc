"""The patches of a cell's lock: those locked before are kept and looked after, new ones are found.

A locked patch whose head has moved, or whose bytes have changed, is an error until ``patch
refresh`` accepts it: nobody is to build other code from the same line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from builder import console
from builder.errors import PatchError, command
from builder.locking.lock import Lock, LockedPatch, patches_for
from builder.matrix.cells import Cell
from builder.matrix.patch import Patch
from builder.patches.locate import locate
from builder.patches.upstream import Hosting


def lock_patches(cell: Cell, lock: Lock, previous: Sequence[LockedPatch], root: Path,
                 hosting: Hosting, cache: Path, *, accept: bool = False) -> Lock:
    """Return the lock with the patches that its versions need; asks the hosting service.

    Raises PatchError with all that moved since ``previous``, unless they are to be accepted.
    """
    before = {(patch.source, patch.wheel): patch for patch in previous}
    found, moved = [], []
    for name, patch in patches_for(cell, lock):
        now = locate(name, patch, patch.wheel(cell.vllm_package), root, hosting, cache)
        # By origin: correcting a glob or a name does not accept what was pushed meanwhile.
        old = before.get((now.source, now.wheel))
        if old is not None and old.sha256 and not now.sha256:
            console.warn(f"{cell.id}: {patch.id} cannot be checked and stays as locked: {now.why}")
            now = old.model_copy(update={"name": now.name, "intent": now.intent})
        elif old is not None and not accept and (change := moved_since(old, now)):
            moved.append(change)
        found.append(now)
        _say(cell, patch, now)
    if moved:
        raise PatchError("patches have changed since they were locked\n" + "\n".join(moved),
                         where=cell.id, next_step="review what changed upstream, then accept it "
                         f"with {command('patch', 'refresh', cell.id)}")
    return lock.model_copy(update={"patches": tuple(found)})


def moved_since(old: LockedPatch, now: LockedPatch) -> str:
    """Return how a patch differs from what is locked, old above new; nothing where it does not."""
    if not old.sha256 or (old.sha256, old.head) == (now.sha256, now.head):
        return ""
    what = ("its head moved, but the change is the same" if old.sha256 == now.sha256 else
            "its head moved, and the change is different" if old.head != now.head else
            "its bytes changed")
    lines = [f"{now.source}: {what}"]
    rows = [("head", old.head, now.head), ("base", old.base, now.base),
            ("diff", old.sha256, now.sha256)]
    for what, one, other in rows:
        if one != other:
            lines += [f"  {what}  locked {one or 'none'}", f"  {what}  now    {other or 'none'}"]
    return "\n".join(lines)


def _say(cell: Cell, patch: Patch, now: LockedPatch) -> None:
    if now.why:
        weight = "required" if patch.required else "optional"
        console.warn(f"{cell.id}: {weight} patch {patch.id} is unresolved: {now.why}")
