"""The content-addressed store under the user's cache folder: wheels and layers by digest.

::

    wheels/<sha256>/<file>   wheels as locked
    layers/<sha256>.tar      complete layers only: BuildKit's context is this folder as it is
    keys/<key>.json          which layer the inputs ``key`` made
    stamps/<sha256>.json     when a file was last hashed (``builder.store.verification``)
    partial/<sha256>         downloads that were cut off, to be continued
    tmp/work-<random>/       work in progress; swept when its process is gone

Nothing gets its final name before it is complete and hashed. Any number of processes may share
one store; only pruning wants it alone. Opening it removes nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder import console
from builder.cache_folder import STORE, claim
from builder.errors import HostError, LockError, command
from builder.files import write_text
from builder.locking.lock import LockedWheel
from builder.removal import remove_file, remove_tree
from builder.store.verification import move_into_place, verified_size

_DIGEST = re.compile(r"[0-9a-f]{64}")
_WORK = "work-"
_WORK_FOLDER = re.compile(r"(work-|tmp)[a-z0-9_]{8}")  # tmp: as earlier versions named theirs


@dataclass(frozen=True)
class StoredLayer:
    """A layer in the store: ``digest`` is the sha256 of the tar, which is its DiffID.

    ``facts`` is what its maker wrote down beside it (``add_layer``).
    """

    digest: str
    size: int
    path: Path
    facts: Mapping[str, Any] = field(default_factory=dict)


def wheel_place(root: Path, wheel: LockedWheel) -> Path:
    """Return where a wheel lies in the store at ``root``, whether or not there is one."""
    return root / "wheels" / wheel.sha256 / wheel.file


def stamp_place(root: Path, digest: str) -> Path:
    """Return where the stamp of a file lies in the store at ``root``."""
    return root / "stamps" / f"{digest}.json"


def wrong_size(wheel: LockedWheel, size: int) -> LockError:
    """Return the error for a lock whose sha256 is right and whose size is not."""
    return LockError(
        f"the lock says that {wheel.file} has {wheel.size} bytes; the file with the locked sha256 "
        f"has {size}", where=f"size of {wheel.name} {wheel.version}",
        next_step=f"the lock was edited or damaged: renew it with {command('lock', 'CELL')}")


class Store:
    """The store in the folder ``root``, which is made where it is missing."""

    def __init__(self, root: Path) -> None:
        """Open the store, shared with other processes.

        Raises HostError where the folder is not a cache of ours or cannot be written.
        """
        self.root = claim(root)
        try:
            for name in STORE:
                (root / name).mkdir(parents=True, exist_ok=True)
            self._lock = os.open(root / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise HostError(f"the cache folder cannot be used: {error.strerror}",
                            where=str(root), next_step="set SPARKYARD_CACHE to a folder of yours"
                            ) from error
        weakref.finalize(self, os.close, self._lock)
        self._swept = False
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    @property
    def layers(self) -> Path:
        """Return the folder of the layers, which is BuildKit's context."""
        return self.root / "layers"

    def wheel_path(self, wheel: LockedWheel) -> Path:
        """Return where the wheel lies once it is fetched."""
        return wheel_place(self.root, wheel)

    def partial_path(self, wheel: LockedWheel) -> Path:
        """Return where a download of the wheel grows."""
        return self.root / "partial" / wheel.sha256

    def find_wheel(self, wheel: LockedWheel) -> Path | None:
        """Return the wheel's path when its bytes can be trusted; a wrong file is removed.

        Raises LockError where the bytes are right and the lock's size is not.
        """
        path = self.wheel_path(wheel)
        size = verified_size(path, self._stamp(wheel.sha256), wheel.sha256, self.root)
        if size is not None and size != wheel.size:
            raise wrong_size(wheel, size)
        return path if size is not None else None

    def add_wheel(self, wheel: LockedWheel, source: Path) -> Path:
        """Move ``source``, whose bytes the caller has hashed, to the wheel's place."""
        path = self.wheel_path(wheel)
        move_into_place(source, path, self._stamp(wheel.sha256))
        return path

    def find_layer(self, key: str) -> StoredLayer | None:
        """Return the layer that the inputs ``key`` (64 hex digits) made, when it can be trusted."""
        index = self._key(key)
        try:
            facts = json.loads(index.read_text(encoding="utf-8"))
            digest, size = _digest(facts.pop("digest")), int(facts.pop("size"))
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError,
                OverflowError):
            return None  # unreadable is the same as absent: the layer is made again
        path = self.layer_path(digest)
        if verified_size(path, self._stamp(digest), digest, self.root) != size:
            return None
        os.utime(index)  # last use, for ``prune``
        return StoredLayer(digest, size, path, facts)

    def layer_path(self, digest: str) -> Path:
        """Return where the layer of this digest lies."""
        return self.layers / f"{_digest(digest)}.tar"

    def add_layer(self, key: str, source: Path, digest: str, size: int,
                  facts: Mapping[str, Any] | None = None) -> StoredLayer:
        """Move a complete tar, hashed by the caller, to its name and remember its inputs.

        ``facts`` (JSON values) come back with ``find_layer``. Equal layers of other inputs share
        one file. Raises ValueError when ``size`` is not the file's.
        """
        if source.stat().st_size != size:
            raise ValueError(f"{source} holds {source.stat().st_size} bytes, not {size}")
        path = self.layer_path(digest)
        if verified_size(path, self._stamp(digest), digest, self.root) == size:
            remove_file(source, source.parent)
        else:
            move_into_place(source, path, self._stamp(digest))
        record = {**(facts or {}), "digest": digest, "size": size}
        write_text(self._key(key), json.dumps(record, sort_keys=True) + "\n")
        return StoredLayer(digest, size, path, dict(facts or {}))

    @contextmanager
    def temporary(self, name: str) -> Iterator[Path]:
        """Give a path called ``name`` on the store's file system; removed at the block's end.

        The folder around it is locked while the block runs, so that another process's sweep
        leaves it alone, and is swept by the next process when this one is killed.
        """
        self._sweep()
        folder, lock = self._locked_folder()
        try:
            yield folder / name
        finally:
            remove_tree(folder, self.root)
            os.close(lock)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out of the store for the block; raises HostError if one is in."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            raise HostError("another run of Sparkyard is using the cache", where=str(self.root),
                            next_step="run the same command again when it has ended") from error
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def _locked_folder(self) -> tuple[Path, int]:
        """Make a folder under ``tmp/`` and lock it; start again where a sweep was quicker."""
        while True:
            folder = Path(tempfile.mkdtemp(prefix=_WORK, dir=self.root / "tmp"))
            try:
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)

    def _sweep(self) -> None:
        """Remove our own folders under ``tmp/`` that no living process has locked; once a store."""
        if self._swept:
            return
        self._swept = True
        for folder in sorted((self.root / "tmp").iterdir()):
            if not _WORK_FOLDER.fullmatch(folder.name):
                continue
            try:
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:
                continue  # gone meanwhile, or no folder, or a link: not made by us
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                console.debug(f"sweeping {folder}")
                remove_tree(folder, self.root)
            except BlockingIOError:
                continue
            finally:
                os.close(lock)

    def _stamp(self, digest: str) -> Path:
        return stamp_place(self.root, digest)

    def _key(self, key: str) -> Path:
        return self.root / "keys" / f"{_digest(key)}.json"


def _digest(text: str) -> str:
    """Return ``text`` when it is 64 hexadecimal digits, so that it is safe in a path."""
    if not _DIGEST.fullmatch(text):
        raise ValueError(f"{text!r} is not a sha256 in hexadecimal")
    return text
