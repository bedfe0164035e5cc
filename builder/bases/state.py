"""Which bases there are, which lock answers for each, and whether it still does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from builder.bases.make import cuda_recipe
from builder.bases.recipe import load_recipe
from builder.config_file import suggestion
from builder.errors import UsageError
from builder.locking.base_lock import Key, LockedBase, load_bases
from builder.workspace import Workspace


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
