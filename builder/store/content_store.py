"""The content-addressed store under the user's cache folder: wheels and layers by digest.

::

    wheels/<sha256>/<file>   wheels as locked
    layers/<sha256>.tar      complete layers only: BuildKit's context is this folder as it is
    keys/<key>.json          which layer the inputs ``key`` made
    stamps/<sha256>.json     when a file was last hashed (``builder.stamps``)
    partial/<sha256>         downloads that were cut off, to be continued
    tmp/<random>/            work in progress; swept when its process is gone

Nothing gets its final name before it is complete and hashed. Any number of processes may share
one store; only pruning wants it alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder import console
from builder.errors import UsageError
from builder.files import write_text
from builder.locking.lock import LockedWheel
from builder.store.verification import settle, trusted

FOLDERS = ("wheels", "layers", "keys", "stamps", "partial", "tmp")
_DIGEST = re.compile(r"[0-9a-f]{64}")


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


class Store:
    """The store in the folder ``root``, which is made where it is missing."""

    def __init__(self, root: Path) -> None:
        """Open the store, shared with other processes, and sweep what dead ones left."""
        self.root = root
        try:
            for name in FOLDERS:
                (root / name).mkdir(parents=True, exist_ok=True)
            self._lock = os.open(root / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise UsageError(f"the cache folder cannot be used: {error.strerror}",
                             where=str(root), next_step="set SPARKYARD_CACHE to a folder of yours"
                             ) from error
        weakref.finalize(self, os.close, self._lock)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self._sweep()

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
        """Return the wheel's path when its bytes can be trusted; a wrong file is removed."""
        path = self.wheel_path(wheel)
        return path if trusted(path, self._stamp(wheel.sha256), wheel.sha256, wheel.size) else None

    def add_wheel(self, wheel: LockedWheel, source: Path) -> Path:
        """Move ``source``, whose bytes the caller has hashed, to the wheel's place."""
        path = self.wheel_path(wheel)
        settle(source, path, self._stamp(wheel.sha256))
        return path

    def find_layer(self, key: str) -> StoredLayer | None:
        """Return the layer that the inputs ``key`` (64 hex digits) made, when it can be trusted."""
        index = self._key(key)
        try:
            facts = json.loads(index.read_text(encoding="utf-8"))
            digest, size = _digest(facts.pop("digest")), int(facts.pop("size"))
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return None  # unreadable is the same as absent: the layer is made again
        path = self.layer_path(digest)
        if not trusted(path, self._stamp(digest), digest, size):
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
        if path.exists() and trusted(path, self._stamp(digest), digest, size):
            source.unlink()
        else:
            settle(source, path, self._stamp(digest))
        record = {**(facts or {}), "digest": digest, "size": size}
        write_text(self._key(key), json.dumps(record, sort_keys=True) + "\n")
        return StoredLayer(digest, size, path, dict(facts or {}))

    @contextmanager
    def temporary(self, name: str) -> Iterator[Path]:
        """Give a path called ``name`` on the store's file system; removed at the block's end.

        The folder around it is locked while the block runs, so that another process's sweep
        leaves it alone, and is swept by the next process when this one is killed.
        """
        folder, lock = self._locked_folder()
        try:
            yield folder / name
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out of the store for the block; raises UsageError if one is in."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            raise UsageError("another sparkyard is using the cache", where=str(self.root),
                             next_step="try again when it has ended") from error
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def _locked_folder(self) -> tuple[Path, int]:
        """Make a folder under ``tmp/`` and lock it; start again where a sweep was quicker."""
        while True:
            folder = Path(tempfile.mkdtemp(dir=self.root / "tmp"))
            try:
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)

    def _sweep(self) -> None:
        """Remove the folders under ``tmp/`` that no living process has locked."""
        for folder in (self.root / "tmp").iterdir():
            try:
                lock = os.open(folder, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                console.debug(f"sweeping {folder}")
                shutil.rmtree(folder, ignore_errors=True)
            except BlockingIOError:
                continue
            finally:
                os.close(lock)

    def _stamp(self, digest: str) -> Path:
        return self.root / "stamps" / f"{digest}.json"

    def _key(self, key: str) -> Path:
        return self.root / "keys" / f"{_digest(key)}.json"


def _digest(text: str) -> str:
    """Return ``text`` when it is 64 hexadecimal digits, so that it is safe in a path."""
    if not _DIGEST.fullmatch(text):
        raise ValueError(f"{text!r} is not a sha256 in hexadecimal")
    return text
