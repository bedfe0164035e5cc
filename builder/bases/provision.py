"""Bases: the committed one where it can be had or made, else one of this machine's own.

The engine is asked first, then the registry; only then is a base made from its locked packages.
Debian's mirrors keep only current packages: when a locked one is gone, today's packages make a
base that is labelled ``unlocked`` and recorded under the cache folder.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from builder import console
from builder.bases import facts as base_facts
from builder.bases.make import load_image, make_cuda, resolve_slim, slim_image
from builder.bases.recipe import SlimRecipe, load_recipe
from builder.bases.state import effective_bases, image_tag, local_file, lock_file, stale
from builder.debian.fetch import GoneError
from builder.engine.client import Engine, ImageFacts
from builder.errors import LockError, NetworkError
from builder.locking.base_lock import UPGRADE_STEP, Key, LockedBase, load_bases, write_bases
from builder.matrix.models import Base
from builder.workspace import Workspace

__all__ = ["ReadyBase", "effective_bases", "ensure", "upgrade"]


@dataclass(frozen=True)
class ReadyBase:
    """A base that the engine has and the registry too: ``reference`` is its name by digest."""

    locked: LockedBase
    tag: str
    reference: str
    how: str  # "present", "pushed", "pulled", "made"


def ensure(workspace: Workspace, engine: Engine, key: Key, *, ask: bool = False) -> ReadyBase:
    """Return a base that is in the engine and in the registry; make it if need be.

    The registry is asked whether it still has a base that the engine once pushed only where
    ``ask`` is set: a build with nothing to do has no time for that. Raises LockError for a stale
    lock, NetworkError where the base is nowhere to be had and cannot be made here, UsageError
    where it would have to be made and this user is not root.
    """
    locked = effective_bases(workspace).get(key)
    if locked is not None:
        _refuse_stale(workspace, key)
        if not ask and (ready := _at_hand(workspace, engine, locked)):
            return ready
    with _alone(workspace, key):  # who waited here may find what the other one made
        locked = effective_bases(workspace).get(key)
        if locked is not None and (ready := _found(workspace, engine, locked)):
            return ready
        return _made(workspace, engine, key, locked)


def _made(workspace: Workspace, engine: Engine, key: Key, locked: LockedBase | None) -> ReadyBase:
    base = workspace.matrix.bases[key[0]]
    if base.flavour == "cuda":
        return _cuda(workspace, engine, base, key, locked)
    return _slim(workspace, engine, key, locked)


def upgrade(workspace: Workspace, engine: Engine, key: Key) -> ReadyBase:
    """Make a base from what is newest now and write it to the committed lock."""
    base = workspace.matrix.bases[key[0]]
    if base.flavour == "cuda":
        locked = make_cuda(engine, workspace.root, base, *key, workspace.registry)
        ready = _ready(workspace, engine, locked, "made")
    else:
        recipe = load_recipe(workspace.root)
        ready = _make(workspace, engine, resolve_slim(recipe, *key), recipe)
    _record(lock_file(workspace), ready.locked)
    image = engine.inspect(ready.locked.image_id)
    if image is not None:  # the gate judges by these where there is no engine
        base_facts.commit(workspace.locks, ready.locked, base_facts.of_image(
            engine, image, workspace.cache, ready.locked.name))
    return ready


def _refuse_stale(workspace: Workspace, key: Key) -> None:
    reason = stale(workspace, key)
    if reason and key in load_bases(lock_file(workspace)):
        raise LockError(f"base {key[0]} {key[1]}: {reason}", where=str(lock_file(workspace)),
                        next_step=UPGRADE_STEP)


@contextmanager
def _alone(workspace: Workspace, key: Key) -> Iterator[None]:
    """Let one process at a time look for and make this base."""
    place = workspace.cache / "rootfs"
    place.mkdir(parents=True, exist_ok=True)
    name = f"{key[0]}-{key[1].removeprefix('linux/')}.making"
    with (place / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _at_hand(workspace: Workspace, engine: Engine, locked: LockedBase) -> ReadyBase | None:
    """Return the base if the engine has it and remembers having pushed or pulled it."""
    tag = image_tag(workspace.registry, locked)
    facts = engine.inspect(tag)
    if facts is None or not _same(facts, locked):
        return None
    names = [name for name in facts.repo_digests if name.startswith(tag.rpartition(":")[0] + "@")]
    return ReadyBase(locked, tag, names[0], "present") if names else None


def _found(workspace: Workspace, engine: Engine, locked: LockedBase) -> ReadyBase | None:
    """Return the base if engine or registry has exactly it."""
    tag = image_tag(workspace.registry, locked)
    if _same(engine.inspect(tag), locked):
        return _ready(workspace, engine, locked, "present")
    try:
        if engine.remote_digest(tag) is None:
            return None
        facts = engine.pull(tag, locked.platform)
    except NetworkError as error:
        console.debug(str(error))
        return None
    return _ready(workspace, engine, locked, "pulled") if _same(facts, locked) else None


def _same(facts: ImageFacts | None, locked: LockedBase) -> bool:
    """Compare by layers: engines with containerd's store call another digest the image's id."""
    return facts is not None and facts.diff_ids == locked.diff_ids


def _ready(workspace: Workspace, engine: Engine, locked: LockedBase, how: str) -> ReadyBase:
    """Bring the registry up to the engine; the digest there is the reference's."""
    tag = image_tag(workspace.registry, locked)
    digest = engine.remote_digest(tag)
    if digest is None:
        digest, how = engine.push(tag), "pushed" if how == "present" else how
    if digest != locked.digest:
        locked = locked.model_copy(update={"digest": digest})
    return ReadyBase(locked, tag, f"{tag.rpartition(':')[0]}@{digest}", how)


def _cuda(workspace: Workspace, engine: Engine, base: Base, key: Key,
          locked: LockedBase | None) -> ReadyBase:
    if locked is not None:
        raise NetworkError(f"base {key[0]} is locked, but neither engine nor registry has it",
                           where=image_tag(workspace.registry, locked),
                           next_step="name a registry that has it: SPARKYARD_REGISTRY; or "
                                     "build the image's cell on the base slim")
    made = make_cuda(engine, workspace.root, base, *key, workspace.registry)
    return _keep_local(workspace, engine, made.model_copy(
        update={"unlocked": "made on this machine, not committed"}))


def _slim(workspace: Workspace, engine: Engine, key: Key, locked: LockedBase | None) -> ReadyBase:
    """Make the locked base from its packages; from today's where these are gone."""
    recipe = load_recipe(workspace.root)
    if locked is None:
        return _local(workspace, engine, key, recipe, "there is no committed lock", "")
    try:
        ready = _make(workspace, engine, locked, recipe)
    except GoneError as error:
        return _local(workspace, engine, key, recipe, error.what,
                      locked.instead_of or locked.image_id)
    if ready.locked.image_id != locked.image_id:
        console.warn(f"base {key[0]} {key[1]}: the locked packages gave another image here")
        return _keep_local(workspace, engine, ready.locked.model_copy(update={
            "unlocked": "the locked packages gave another image on this machine",
            "instead_of": locked.instead_of or locked.image_id}))
    return ready


def _local(workspace: Workspace, engine: Engine, key: Key, recipe: SlimRecipe, reason: str,
           instead_of: str) -> ReadyBase:
    """Make a base from today's packages, say why, and remember it for this machine."""
    console.warn(f"base {key[0]} {key[1]} is unlocked: {reason}; renew it: {UPGRADE_STEP}")
    wanted = resolve_slim(recipe, *key).model_copy(
        update={"unlocked": reason, "instead_of": instead_of})
    return _keep_local(workspace, engine,
                       _make(workspace, engine, wanted, recipe).locked)


def _keep_local(workspace: Workspace, engine: Engine, locked: LockedBase) -> ReadyBase:
    _record(local_file(workspace), locked)
    return _ready(workspace, engine, locked, "made")


def _make(workspace: Workspace, engine: Engine, wanted: LockedBase,
          recipe: SlimRecipe) -> ReadyBase:
    """Make the image of ``wanted``'s packages and take it in; its facts replace the wanted ones."""
    with slim_image(wanted, recipe, workspace.cache) as image:
        made = wanted.model_copy(update={"image_id": image.id, "diff_ids": image.diff_ids})
        load_image(engine, image, image_tag(workspace.registry, made))
    return _ready(workspace, engine, made, "made")


def _record(path: Path, base: LockedBase) -> None:
    write_bases(path, {**load_bases(path), base.key: base})
