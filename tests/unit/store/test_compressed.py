"""Compressed layers: the same bytes whatever the cores, compressed once, trusted when hashed."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from builder.errors import DiskError, UsageError
from builder.store import compressed as module
from builder.store.compressed import BLOCK_BYTES, Compression, compress, find_compressed
from builder.store.content_store import Store
from builder.store.prune import DAY_S, removable, remove

DATA = random.Random(5).randbytes(1 << 12) * 4800  # over two blocks


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    path = tmp_path / "layer.tar"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def unpacked(path: Path) -> bytes:
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    with path.open("rb") as stream:
        reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
        return reader.read()


@pytest.mark.parametrize("method", Compression)
def test_what_comes_out_is_what_went_in(store: Store, tar: Path, method: Compression) -> None:
    assert len(DATA) > 2 * BLOCK_BYTES
    layer = compress(store, tar, sha256(DATA), method)
    assert unpacked(layer.path) == DATA
    assert sha256(layer.path.read_bytes()) == layer.digest == layer.path.stem
    assert layer.size == layer.path.stat().st_size < len(DATA)


@pytest.mark.parametrize("method", Compression)
def test_the_bytes_do_not_depend_on_the_cores(tmp_path: Path, tar: Path, method: Compression
                                              ) -> None:
    digests = {compress(Store(tmp_path / f"cache-{count}"), tar, sha256(DATA), method,
                        count).digest for count in (1, 2, 5)}
    assert len(digests) == 1


def test_zstd_gives_the_bytes_that_are_known(store: Store, tmp_path: Path) -> None:
    """The digest that every machine must reach; another version of the library may change it."""
    path = tmp_path / "known.tar"
    path.write_bytes(b"sparkyard" * 4096)
    layer = compress(store, path, sha256(path.read_bytes()), Compression.ZSTD)
    assert zstandard.ZSTD_VERSION == (1, 5, 7)
    assert layer.digest == "e4a387b8046fea7f5d2ad97482bf355d7b5803bb123d70c392c6e6af4a46b50f"


def test_a_layer_is_compressed_once(store: Store, tar: Path, monkeypatch: pytest.MonkeyPatch
                                    ) -> None:
    first = compress(store, tar, sha256(DATA), Compression.ZSTD)
    monkeypatch.setattr(module, "blocks_compressed", lambda *_: pytest.fail("compressed again"))
    tar.unlink()
    assert compress(store, tar, first.diff_id, Compression.ZSTD) == first
    assert find_compressed(store, first.diff_id, Compression.GZIP) is None


def test_damaged_bytes_are_made_again(store: Store, tar: Path) -> None:
    first = compress(store, tar, sha256(DATA), Compression.ZSTD)
    first.path.chmod(0o644)
    first.path.write_bytes(bytes(first.size))
    assert find_compressed(store, first.diff_id, Compression.ZSTD) is None
    assert compress(store, tar, first.diff_id, Compression.ZSTD) == first
    assert unpacked(first.path) == DATA


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"digest": "../x", "size": 1}', "[" * 100_000])
def test_a_damaged_index_is_no_index(store: Store, tar: Path, text: str) -> None:
    first = compress(store, tar, sha256(DATA), Compression.ZSTD)
    index, = (store.root / "compressed").glob("*.json")
    index.write_text(text)
    assert find_compressed(store, first.diff_id, Compression.ZSTD) is None
    assert compress(store, tar, first.diff_id, Compression.ZSTD) == first


def test_a_tar_with_other_bytes_is_refused(store: Store, tar: Path) -> None:
    with pytest.raises(UsageError, match="does not hold the bytes that its name says"):
        compress(store, tar, "0" * 64, Compression.ZSTD)
    assert list((store.root / "compressed").iterdir()) == []


def stamped(store: Store, data: bytes) -> Path:
    """Return a layer of the store whose stamp says that it was hashed."""
    source = store.root / "new.tar"
    source.write_bytes(data)
    return store.add_layer("1" * 64, source, sha256(data), len(data)).path


def test_a_layer_that_is_as_it_was_hashed_gives_the_same_bytes(store: Store, tar: Path) -> None:
    first = compress(Store(store.root.parent / "other"), tar, sha256(DATA), Compression.ZSTD)
    again = compress(store, stamped(store, DATA), sha256(DATA), Compression.ZSTD)
    assert (again.digest, again.size) == (first.digest, first.size)


def test_a_layer_that_was_altered_since_it_was_hashed_is_refused(store: Store) -> None:
    path = stamped(store, DATA)
    path.chmod(0o644)
    path.write_bytes(DATA[::-1])
    with pytest.raises(UsageError, match="does not hold the bytes that its name says"):
        compress(store, path, sha256(DATA), Compression.ZSTD)
    assert list((store.root / "compressed").iterdir()) == []


def test_a_layer_that_is_altered_while_it_is_read_is_refused(
        store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = stamped(store, DATA), module.blocks_compressed

    def altering(*arguments: Any) -> Iterator[bytes]:
        yield from real(*arguments)
        path.chmod(0o644)

    monkeypatch.setattr(module, "blocks_compressed", altering)
    with pytest.raises(UsageError, match="does not hold the bytes that its name says"):
        compress(store, path, sha256(DATA), Compression.ZSTD)
    assert list((store.root / "compressed").iterdir()) == []


def test_a_full_disk_leaves_nothing(store: Store, tar: Path, monkeypatch: pytest.MonkeyPatch
                                    ) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "_write", full)
    with pytest.raises(DiskError, match="while compressing"):
        compress(store, tar, sha256(DATA), Compression.ZSTD)
    assert list((store.root / "compressed").iterdir()) == []
    assert list((store.root / "tmp").iterdir()) == []


def test_prune_takes_what_was_not_used(store: Store, tar: Path) -> None:
    layer = compress(store, tar, sha256(DATA), Compression.ZSTD)
    other = compress(store, tar, sha256(DATA), Compression.GZIP)
    (store.root / "uploads").mkdir()
    note = store.root / "uploads" / f"{'a' * 64}.json"
    note.write_text("{}")
    past = layer.path.stat().st_mtime - 100 * DAY_S
    for path in (*(store.root / "compressed").iterdir(), note):
        os.utime(path, (past, past))
    assert find_compressed(store, other.diff_id, Compression.GZIP)  # marks its use
    remove(store, removable(store.root, (), 14))
    assert not layer.path.exists()
    assert not note.exists()
    assert other.path.exists()
    assert len(list((store.root / "compressed").glob("*.json"))) == 1
