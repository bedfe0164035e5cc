"""Provide a base: the committed one where it can be had or made, else this machine's own.

The engine is asked first, then the registry; only then is a base made from its locked packages.
These come from the user's mirror, else from a snapshot service, else from the registry. Where none
has them, today's packages make a base that is labelled ``unlocked`` and recorded under the cache
folder.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from builder import console
from builder.bases import facts as base_facts
from builder.bases import retained
from builder.bases.cuda import built_name, make_cuda
from builder.bases.difference import difference
from builder.bases.make import PLACEHOLDER, load_image, resolve_slim, slim_image
from builder.bases.retained import RetainedPackages
from builder.bases.state import (
    Bases,
    BaseState,
    SlimRecipe,
    image_tag,
    load_slim_recipe,
    local_file,
    lock_file,
    read_bases,
)
from builder.debian.archives import mirror, snapshot
from builder.debian.fetch import GoneError, Source, fetch_debs
from builder.engine.client import Engine, ImageFacts
from builder.errors import LockError, NetworkError, SparkyardError, command
from builder.files import open_mark
from builder.locking.base_lock import Key, LockedBase, load_bases, write_bases
from builder.matrix.models import Base
from builder.workspace import Workspace


class Origin(StrEnum):
    """Where a base came from in this run."""

    PRESENT = "present"
    PUSHED = "pushed"  # the engine had it, the registry did not
    PULLED = "pulled"
    MADE = "made"


@dataclass(frozen=True)
class ReadyBase:
    """A base that engine and registry both have: ``reference`` is its name by digest."""

    locked: LockedBase
    tag: str
    reference: str
    origin: Origin


def ensure(workspace: Workspace, engine: Engine, key: Key, *, bases: Bases | None = None,
           ask: bool = False) -> ReadyBase:
    """Return a base that is in the engine and in the registry; make it if need be.

    ``bases`` are the locks where the caller has read them already. The registry is asked whether
    it still has a base that the engine once pushed only where ``ask`` is set: a build with nothing
    to do has no time for that. Raises LockError for a stale lock, NetworkError where the base is
    nowhere to be had and cannot be made here, UsageError where it would have to be made and this
    user is not root.
    """
    bases = bases or read_bases(workspace)
    refuse_stale(workspace, bases, key)
    locked = bases.get(key)
    if locked is not None and not ask and (ready := _at_hand(workspace, engine, locked)):
        return ready
    waiting = f"base {_named(key)}: waiting for another process that makes it"
    with _flock(workspace, f"{key[0]}-{key[1].removeprefix('linux/')}.making", waiting):
        locked = read_bases(workspace).get(key)  # another process may have made it meanwhile
        if locked is not None and (ready := _find(workspace, engine, locked)):
            return ready
        return _make(workspace, engine, key, locked)


def refuse_stale(workspace: Workspace, bases: Bases, key: Key) -> None:
    """Raise LockError where the committed lock of a base no longer answers the matrix."""
    standing = bases.standings.get(key)
    if standing is not None and standing.state is BaseState.STALE:
        raise LockError(f"the lock of base {_named(key)} is stale: {standing.why}",
                        where=str(lock_file(workspace)), next_step=upgrade_step(key[0]))


def upgrade_step(*names: str) -> str:
    """Return what to do about the lock of some bases."""
    return f"make and lock them again: {command('base', *names, '--upgrade')}"


def _make(workspace: Workspace, engine: Engine, key: Key, locked: LockedBase | None) -> ReadyBase:
    base = workspace.matrix.bases[key[0]]
    if base.flavour == "cuda":
        return _cuda(workspace, engine, base, key, locked)
    return _slim(workspace, engine, key, locked)


def upgrade(workspace: Workspace, engine: Engine, key: Key) -> ReadyBase:
    """Make a base from what is newest now and write it to the committed lock.

    The lock is written when the registry has the base and its packages. Where today's packages are
    the locked ones, base and lock stay as they are.
    """
    base, old = workspace.matrix.bases[key[0]], load_bases(lock_file(workspace)).get(key)
    if base.flavour == "cuda":
        ready = _tagged(workspace, engine,
                        make_cuda(engine, workspace.root, base, key, workspace.registry))
    else:
        recipe = load_slim_recipe(workspace.root)
        ready = _renewed(workspace, engine, old, resolve_slim(recipe, base, key), recipe)
        _keep_packages(workspace, ready.locked, recipe)
    if old is not None and old.image_id == ready.locked.image_id and (
            ready.locked.model_copy(update={"digest": old.digest}) == old):
        return ready  # another registry may have the same image under another digest
    for line in difference(old, ready.locked):
        console.info(f"  {line}")
    _record(workspace, lock_file(workspace), ready.locked)
    image = engine.inspect(ready.tag)
    if image is not None:  # the gate judges by these where there is no engine
        facts = base_facts.of_image(engine, image, workspace.cache, ready.locked.name)
        # Engines with containerd's store call another digest the image's id.
        base_facts.commit(workspace.locks, ready.locked,
                          replace(facts, digest=ready.locked.image_id))
    return ready


def _renewed(workspace: Workspace, engine: Engine, old: LockedBase | None, wanted: LockedBase,
             recipe: SlimRecipe) -> ReadyBase:
    """Return the base of ``wanted``'s packages: the locked one where these are its packages."""
    if old is not None and difference(old, wanted) == []:
        console.info(f"base {_named(old.key)}: today's packages are the locked ones")
        wanted = old if old.snapshot else old.model_copy(update={"snapshot": wanted.snapshot})
        if ready := _find(workspace, engine, wanted):
            return ready
    return _make_slim(workspace, engine, wanted, recipe)


def _at_hand(workspace: Workspace, engine: Engine, locked: LockedBase) -> ReadyBase | None:
    """Return the base if the engine has it and remembers having pushed or pulled it."""
    tag = image_tag(workspace.registry, locked)
    facts = engine.inspect(tag)
    if facts is None or not _same(facts, locked):
        return None
    names = [name for name in facts.repo_digests if name.startswith(tag.rpartition(":")[0] + "@")]
    return ReadyBase(locked, tag, names[0], Origin.PRESENT) if names else None


def _find(workspace: Workspace, engine: Engine, locked: LockedBase) -> ReadyBase | None:
    """Return the base if engine or registry has exactly it."""
    tag = image_tag(workspace.registry, locked)
    if _same(engine.inspect(tag), locked):
        return _ready(workspace, engine, locked, Origin.PRESENT)
    try:
        digest = _remote(workspace, engine, locked)
        if digest is None:
            return None
        reference = f"{tag.rpartition(':')[0]}@{digest}"
        facts = engine.pull(reference, locked.platform)
    except NetworkError as error:
        console.debug(str(error))
        return None
    if not _same(facts, locked):
        console.warn(f"{reference} is not used for base {_named(locked.key)}: its layers are not "
                     "the locked ones")
        return None
    engine.tag(reference, tag)
    return _ready(workspace, engine, locked, Origin.PULLED)


def _remote(workspace: Workspace, engine: Engine, locked: LockedBase) -> str | None:
    """Return the digest of the locked image in the registry, None where it lacks it.

    A registry that only the engine can reach is asked through the engine, by the tag alone.
    """
    try:
        return retained.image_digest(retained.repository_of(workspace.registry, locked), locked)
    except NetworkError as error:
        console.debug(str(error))
        return engine.remote_digest(image_tag(workspace.registry, locked))


def _same(facts: ImageFacts | None, locked: LockedBase) -> bool:
    """Compare by layers: engines with containerd's store call another digest the image's id."""
    return facts is not None and facts.diff_ids == locked.diff_ids


def _tagged(workspace: Workspace, engine: Engine, made: LockedBase) -> ReadyBase:
    """Give an image that was just built its immutable tag, here and in the registry."""
    engine.tag(built_name(workspace.registry, made.key), image_tag(workspace.registry, made))
    return _ready(workspace, engine, made, Origin.MADE)


def _ready(workspace: Workspace, engine: Engine, locked: LockedBase, origin: Origin) -> ReadyBase:
    """Push the base where the registry lacks it; the digest there is the reference's."""
    tag = image_tag(workspace.registry, locked)
    digest = _remote(workspace, engine, locked)
    if digest is None:
        digest = engine.push(tag)
        origin = Origin.PUSHED if origin is Origin.PRESENT else origin
    if digest != locked.digest:
        locked = locked.model_copy(update={"digest": digest})
    return ReadyBase(locked, tag, f"{tag.rpartition(':')[0]}@{digest}", origin)


def _cuda(workspace: Workspace, engine: Engine, base: Base, key: Key,
          locked: LockedBase | None) -> ReadyBase:
    """Make an unlocked cuda base; a locked one cannot be made again, only pulled."""
    if locked is not None:
        raise NetworkError(f"base {_named(key)} is locked, but neither the engine nor the "
                           "registry has it",
                           where=image_tag(workspace.registry, locked),
                           next_step="set SPARKYARD_REGISTRY to a registry that has it, or build "
                                     "the image's cell on the base slim")
    made = make_cuda(engine, workspace.root, base, key, workspace.registry)
    return _keep_local(workspace, _tagged(workspace, engine, made.model_copy(
        update={"unlocked": "it was made on this machine and is not committed"})))


def _slim(workspace: Workspace, engine: Engine, key: Key, locked: LockedBase | None) -> ReadyBase:
    """Make the locked base from its packages; from today's where these are gone."""
    recipe = load_slim_recipe(workspace.root)
    if locked is None:
        return _slim_of_today(workspace, engine, key, recipe, "it has no committed lock", "")
    try:
        ready = _make_slim(workspace, engine, locked, recipe)
    except GoneError as error:
        unasked = "" if locked.snapshot else "\n  no snapshot was asked: the lock has no time"
        return _slim_of_today(workspace, engine, key, recipe, error.what + unasked,
                              locked.instead_of or locked.image_id)
    if ready.locked.image_id == locked.image_id:
        try:
            _keep_packages(workspace, ready.locked, recipe)
        except SparkyardError as error:  # the base is there; a later run keeps them
            console.warn(f"the packages of base {_named(key)} are not kept: {error.what}")
        return ready
    reason = "the locked packages gave another image on this machine"
    console.warn(f"base {_named(key)} is unlocked: {reason}; images on it cannot be published")
    return _keep_local(workspace, replace(ready, locked=ready.locked.model_copy(update={
        "unlocked": reason, "instead_of": locked.instead_of or locked.image_id})))


def _slim_of_today(workspace: Workspace, engine: Engine, key: Key, recipe: SlimRecipe,
                   reason: str, instead_of: str) -> ReadyBase:
    """Make a base from today's packages, say why, and remember it for this machine."""
    console.warn(f"base {_named(key)} is unlocked: {reason}\nToday's packages are used instead, "
                 "and images on them cannot be published. To lock today's packages for everyone: "
                 f"{command('base', key[0], '--upgrade')}")
    wanted = resolve_slim(recipe, workspace.matrix.bases[key[0]], key).model_copy(
        update={"unlocked": reason.partition("\n")[0], "instead_of": instead_of})
    return _keep_local(workspace, _make_slim(workspace, engine, wanted, recipe))


def _make_slim(workspace: Workspace, engine: Engine, wanted: LockedBase,
               recipe: SlimRecipe) -> ReadyBase:
    """Make the image of ``wanted``'s packages and load it; the lock then names what came out."""
    with slim_image(wanted, recipe, workspace.cache, debian_sources(workspace, wanted, recipe)
                    ) as image:
        made = wanted.model_copy(update={"image_id": image.id, "diff_ids": image.diff_ids})
        load_image(engine, image, image_tag(workspace.registry, made))
    return _ready(workspace, engine, made, Origin.MADE)


def debian_sources(workspace: Workspace, wanted: LockedBase, recipe: SlimRecipe) -> list[Source]:
    """Return where the packages may come from, in order; today's are on the mirror alone."""
    found: list[Source] = [mirror(recipe.suite)]
    if wanted.image_id == PLACEHOLDER:
        return found
    name = workspace.matrix.bases[wanted.name].snapshot
    past = snapshot(workspace.matrix.snapshots[name].url if name else None, wanted.snapshot)
    return [*found, *([past] if past else []), RetainedPackages(workspace.registry, wanted)]


def _keep_packages(workspace: Workspace, locked: LockedBase, recipe: SlimRecipe) -> None:
    """Bring the packages of a locked base into the registry, unless it has them."""
    repository = retained.repository_of(workspace.registry, locked)
    if retained.packages_kept(repository, locked):
        return
    fetch_debs(locked.packages, debian_sources(workspace, locked, recipe), workspace.cache)
    sent = retained.keep_packages(repository, locked, workspace.cache)
    console.info(f"base {_named(locked.key)}: the registry keeps its {len(locked.packages)} "
                 f"packages, {sent} of them new there")


def _keep_local(workspace: Workspace, ready: ReadyBase) -> ReadyBase:
    """Remember a base that is not the committed one, for this machine."""
    _record(workspace, local_file(workspace), ready.locked)
    return ready


def _record(workspace: Workspace, path: Path, base: LockedBase) -> None:
    """Write one base into a lock, one process or thread at a time: platforms are made at once."""
    with _flock(workspace, "bases.making"):
        write_bases(path, {**load_bases(path), base.key: base})


@contextmanager
def _flock(workspace: Workspace, name: str, waiting: str = "") -> Iterator[None]:
    """Hold a lock of this machine for the block; ``waiting`` is said where it has to be waited."""
    folder = workspace.cache / "rootfs"
    folder.mkdir(parents=True, exist_ok=True)
    with open_mark(folder / name) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                console.info(waiting)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _named(key: Key) -> str:
    return " ".join(key)
