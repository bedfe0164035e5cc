"""A disk that is really full: a small file system in memory (root only)."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder import files as disk
from builder.cache_folder import MARKER
from builder.errors import DiskError
from builder.fetch import download
from builder.fetch import wheels as fetch
from builder.indexes.settings import Sources
from builder.locking.lock import Lock, LockedWheel
from builder.store.content_store import Store

SIZE = 4 << 20
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def lock_of(folder: Path, data: bytes) -> tuple[Lock, Sources]:
    wheel = LockedWheel(name="alpha", version="1.0", file="alpha-1.0-py3-none-any.whl",
                        sha256=hashlib.sha256(data).hexdigest(), size=len(data), index="default")
    (folder / wheel.file).write_bytes(data)
    lock = Lock(cell="cpu", intent="i", python="3.11", platform="p", wheels=(wheel,))
    return lock, Sources((folder / "empty").as_uri(), find_links=(str(folder),))


def files(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*") if path.is_file() and path.name != ".lock"]


def test_too_little_room_is_said_before_anything_is_written(small_disk: Path, tmp_path: Path
                                                            ) -> None:
    lock, user = lock_of(tmp_path, os.urandom(2 * SIZE))
    with pytest.raises(DiskError, match=r"8\.4 MB needed, 4\.2 MB free") as caught:
        fetch.fetch_lock(lock, Store(small_disk), {}, user=user)
    assert caught.value.exit_code == 5
    assert files(small_disk) == [MARKER]


def test_a_disk_that_fills_on_the_way_leaves_nothing_that_is_trusted(
        small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, user = lock_of(tmp_path, os.urandom(2 * SIZE))
    monkeypatch.setattr(fetch, "require_space", lambda *_: None)  # another program took the room
    store = Store(small_disk)
    with pytest.raises(DiskError, match="became full"):
        fetch.fetch_lock(lock, store, {}, user=user)
    assert files(small_disk / "wheels") == []
    assert files(small_disk / "stamps") == []
    (wheel,) = lock.wheels
    assert store.find_wheel(wheel) is None
    left = store.partial_path(wheel).stat().st_size  # kept, to be continued
    assert disk.free_bytes(small_disk) < download.CHUNK_BYTES
    subprocess.run(["mount", "-o", f"remount,size={4 * SIZE}", small_disk], check=True)
    assert left > 0
    assert fetch.fetch_lock(lock, store, {}, user=user).paths[wheel].stat().st_size == 2 * SIZE
