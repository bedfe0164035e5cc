"""What the cache folder holds, and what of it nobody has needed for a while.

Only files whose place and name prove that the store made them are offered for removal.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from builder.removal import remove_empty_folder, remove_file
from builder.store.content_store import Store

DAY_S = 86_400
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"[0-9a-f]{64}\.json")
_COMPRESSED = re.compile(r"[0-9a-f]{64}\.(zst|gz)")
_LAYER = re.compile(r"[0-9a-f]{64}\.tar")


@dataclass(frozen=True)
class FolderUsage:
    """One folder of the cache: how many files it has and their bytes."""

    name: str
    files: int
    size: int


@dataclass(frozen=True)
class Removable:
    """One wheel, layer, download or record: the paths that go together, and their bytes."""

    what: str
    paths: tuple[Path, ...]
    size: int


def usage(root: Path) -> list[FolderUsage]:
    """Return what each folder of the cache holds; links are not followed."""
    folders = []
    for folder in sorted(root.iterdir() if root.is_dir() else ()):
        if folder.is_dir() and not folder.is_symlink():
            sizes = [path.lstat().st_size for path in folder.rglob("*")
                     if path.is_file() and not path.is_symlink()]
            folders.append(FolderUsage(folder.name, len(sizes), sum(sizes)))
    return folders


def removable(root: Path, locked: Collection[str], days: float) -> list[Removable]:
    """Return what was not used for ``days``: wheels outside ``locked``, layers, cut-off transfers.

    ``locked`` are the sha256 of the wheels that a lock of this checkout names, and the keys of
    compiles: those stay. A layer's last use is that of the newest key that leads to it.
    """
    before = time.time() - days * DAY_S
    return [*_wheels(root, locked, before), *_layers(root, before),
            *_compressed(root, before), *_compiled(root, locked, before),
            *_partials(root, before)]


def remove(store: Store, items: Collection[Removable]) -> None:
    """Remove ``items`` while no other process uses the store; raises UsageError if one does."""
    with store.alone():
        for item in items:
            for path in item.paths:
                remove_file(path, store.root)
                for folder in path.parents:  # wheels/<sha256>, records/<cell>
                    if folder.parent == store.root:
                        break
                    remove_empty_folder(folder, store.root)


def named_files(root: Path, pattern: str, name: re.Pattern[str]) -> Iterator[Path]:
    """Yield the regular files at ``pattern`` below ``root`` whose ``name`` is one of ours."""
    for path in sorted(root.glob(pattern)):
        if name.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            yield path


def _wheels(root: Path, locked: Collection[str], before: float) -> Iterator[Removable]:
    for folder in sorted((root / "wheels").glob("*")):
        if folder.name in locked or not _DIGEST.fullmatch(folder.name) or folder.is_symlink():
            continue
        for path in sorted(folder.glob("*.whl")):
            if not path.is_symlink() and path.stat().st_mtime < before:
                stamp = root / "stamps" / f"{folder.name}.json"
                yield Removable(f"wheel {path.name}", (stamp, path), path.stat().st_size)


def _layers(root: Path, before: float) -> Iterator[Removable]:
    keys: dict[str, list[Path]] = {}
    for key in named_files(root, "keys/*", _KEY):
        keys.setdefault(_leads_to(key), []).append(key)
    for path in named_files(root, "layers/*", _LAYER):
        own = keys.get(path.stem, [])
        if max(file.stat().st_mtime for file in (path, *own)) < before:
            stamp = root / "stamps" / f"{path.stem}.json"
            # Keys first: one without its layer is harmless, but says less than none.
            yield Removable(f"layer {path.stem[:12]}", (*own, stamp, path), path.stat().st_size)


def _compressed(root: Path, before: float) -> Iterator[Removable]:
    """Compressed layers; the last use of one is that of the newest index that leads to it."""
    indexes: dict[str, list[Path]] = {}
    for index in named_files(root, "compressed/*", _KEY):
        indexes.setdefault(_leads_to(index), []).append(index)
    for path in named_files(root, "compressed/*", _COMPRESSED):
        own = indexes.get(path.stem, [])
        if max(file.stat().st_mtime for file in (path, *own)) < before:
            stamp = root / "stamps" / f"{path.stem}.json"
            yield Removable(f"compressed layer {path.stem[:12]}", (*own, stamp, path),
                            path.stat().st_size)


def _compiled(root: Path, locked: Collection[str], before: float) -> Iterator[Removable]:
    """Yield what was compiled, by its key, and how wheels were put together, by their sha256."""
    for facts in sorted((root / "compiled").glob("*/rebuilt.json")):
        folder = facts.parent
        if (folder.name in locked or not _DIGEST.fullmatch(folder.name) or folder.is_symlink()
                or facts.stat().st_mtime >= before):
            continue
        files = [path for path in sorted((folder / "files").rglob("*"))
                 if path.is_file() and not path.is_symlink()]
        # The facts first: without them nothing is under the key.
        yield Removable(f"compiled {folder.name[:12]}", (facts, *files),
                        sum(path.stat().st_size for path in files))
    for path in named_files(root, "compiled/*", _KEY):
        if path.stem not in locked and path.stat().st_mtime < before:
            yield Removable(f"record of the wheel {path.stem[:12]}", (path,), path.stat().st_size)


def _leads_to(key: Path) -> str:
    try:
        return str(json.loads(key.read_text(encoding="utf-8"))["digest"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return ""  # unreadable: leads nowhere, as for the store itself


def _partials(root: Path, before: float) -> Iterator[Removable]:
    for path in named_files(root, "partial/*", _DIGEST):
        if path.stat().st_mtime < before:
            yield Removable(f"partial download {path.name[:12]}", (path,), path.stat().st_size)
    for path in named_files(root, "uploads/*", _KEY):
        if path.stat().st_mtime < before:
            yield Removable(f"note of an upload {path.name[:12]}", (path,), path.stat().st_size)
