"""Bases: the committed one where it can be had or made, else one of this machine's own.

The engine is asked first, then the registry; only then is a base made from its locked packages.
Debian's mirrors keep only current packages: when a locked one is gone, today's packages make a
base that is labelled ``unlocked`` and recorded under the cache folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from builder import console
from builder.base_lock import UPGRADE_STEP, Key, LockedBase, load_bases, write_bases
from builder.base_make import cuda_recipe, load_image, make_cuda, resolve_slim, slim_image
from builder.base_recipe import SlimRecipe, load_recipe
from builder.engine import Engine, ImageFacts
from builder.errors import NetworkError, UsageError
from builder.fetch_debs import GoneError
from builder.matrix import Base
from builder.parse import suggestion
from builder.workspace import Workspace


@dataclass(frozen=True)
class ReadyBase:
    """A base that the engine has and the registry too: ``reference`` is its name by digest."""

    locked: LockedBase
    tag: str
    reference: str
    how: str  # "present", "pushed", "pulled", "made"


def lock_file(workspace: Workspace) -> Path:
    """Return the committed lock of the bases."""
    return workspace.locks / "bases.toml"


def local_file(workspace: Workspace) -> Path:
    """Return this machine's own lock, for bases that are not the committed ones."""
    return workspace.cache / "bases.toml"


def effective_bases(workspace: Workspace) -> dict[Key, LockedBase]:
    """Return the bases that builds use: this machine's own stand in for those they replace."""
    committed = load_bases(lock_file(workspace))
    for key, base in load_bases(local_file(workspace)).items():
        replaced = committed.get(key)
        if base.instead_of == (replaced.image_id if replaced else ""):
            committed[key] = base
    return committed


def image_tag(registry: str, base: LockedBase) -> str:
    """Return the immutable tag of a base: processor and the start of its image id."""
    return f"{registry}/base-{base.name}:{base.arch}-{base.image_id.removeprefix('sha256:')[:12]}"


def chosen(workspace: Workspace, names: Iterable[str], platforms: Iterable[str]) -> list[Key]:
    """Return the bases meant on the command line; by default every one of the matrix."""
    known = workspace.matrix.bases
    for name in names:
        if name not in known:
            raise UsageError(f'there is no base "{name}"', where="command line",
                             next_step=suggestion(name, list(known)))
    wanted = set(platforms)
    return [(name, platform) for name in (tuple(names) or known)
            for platform in known[name].platforms if not wanted or platform in wanted]


def ensure(workspace: Workspace, engine: Engine, key: Key) -> ReadyBase:
    """Return a base that is in the engine and in the registry; make it if need be.

    Raises NetworkError where it is to be had from neither and cannot be made here, UsageError
    where it would have to be made and this user is not root.
    """
    locked = effective_bases(workspace).get(key)
    if locked is not None:
        ready = _found(workspace, engine, locked)
        if ready is not None:
            return ready
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
    return ready


def stale(workspace: Workspace, key: Key) -> str:
    """Say why the committed lock does not answer for a base; nothing where it does."""
    locked = load_bases(lock_file(workspace)).get(key)
    base = workspace.matrix.bases[key[0]]
    if locked is None:
        return f"not locked: {base.source} was out of reach" if base.flavour == "cuda" else (
            "not locked")
    recipe = (cuda_recipe(workspace.root, base) if base.flavour == "cuda"
              else load_recipe(workspace.root).digest)
    if locked.recipe != recipe:
        return "what it is asked to hold has changed since it was locked"
    if not locked.python.startswith(f"{base.python}.") or locked.glibc != base.glibc:
        return (f"it holds Python {locked.python} and glibc {locked.glibc}, the matrix says "
                f"{base.python} and {base.glibc}")
    return ""


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
                                     "build on --base slim")
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
