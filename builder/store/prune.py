"""What the cache folder holds, and what of it nobody has needed for a while."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from builder.removal import remove_empty_folder, remove_file
from builder.store.content_store import Store

DAY_S = 86_400


@dataclass(frozen=True)
class Held:
    """One folder of the cache: how many files it has and their bytes."""

    name: str
    files: int
    size: int


@dataclass(frozen=True)
class Unneeded:
    """One wheel, layer or broken-off download: the paths that go together, and their bytes."""

    what: str
    paths: tuple[Path, ...]
    size: int


def held(root: Path) -> list[Held]:
    """Return what each folder of the cache holds; other stages keep theirs beside the store's."""
    found = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        sizes = [path.lstat().st_size for path in folder.rglob("*") if path.is_file()]
        found.append(Held(folder.name, len(sizes), sum(sizes)))
    return found


def unneeded(store: Store, locked: Collection[str], days: float) -> list[Unneeded]:
    """Return what was not used for ``days``: wheels outside ``locked``, layers, cut-off downloads.

    ``locked`` are the sha256 of the wheels that a lock of this checkout names: those stay. A
    layer's last use is that of the newest key that leads to it.
    """
    before = time.time() - days * DAY_S
    return [*_wheels(store, locked, before), *_layers(store, before), *_partials(store, before)]


def remove(store: Store, items: Collection[Unneeded]) -> None:
    """Remove ``items`` while no other process uses the store; raises UsageError if one does."""
    with store.alone():
        for item in items:
            for path in item.paths:
                remove_file(path, store.root)
                if path.parent.parent == store.root / "wheels":
                    remove_empty_folder(path.parent, store.root)


def _wheels(store: Store, locked: Collection[str], before: float) -> Iterator[Unneeded]:
    for path in sorted((store.root / "wheels").glob("*/*")):
        digest = path.parent.name
        if digest not in locked and path.stat().st_mtime < before:
            stamp = store.root / "stamps" / f"{digest}.json"
            yield Unneeded(f"wheel {path.name}", (stamp, path), path.stat().st_size)


def _layers(store: Store, before: float) -> Iterator[Unneeded]:
    keys: dict[str, list[Path]] = {}
    for key in (store.root / "keys").glob("*.json"):
        keys.setdefault(_leads_to(key), []).append(key)
    for path in sorted(store.layers.glob("*.tar")):
        own = keys.get(path.stem, [])
        if max(one.stat().st_mtime for one in (path, *own)) < before:
            stamp = store.root / "stamps" / f"{path.stem}.json"
            # Keys first: one without its layer is harmless, but says less than none.
            yield Unneeded(f"layer {path.stem[:12]}", (*own, stamp, path), path.stat().st_size)


def _leads_to(key: Path) -> str:
    try:
        return str(json.loads(key.read_text(encoding="utf-8"))["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # unreadable: leads nowhere, as for the store itself


def _partials(store: Store, before: float) -> Iterator[Unneeded]:
    for path in sorted((store.root / "partial").iterdir()):
        if path.is_file() and path.stat().st_mtime < before:
            yield Unneeded(f"cut-off download {path.name[:12]}", (path,), path.stat().st_size)
