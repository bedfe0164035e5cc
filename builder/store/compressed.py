"""Layers as they travel: each tar compressed once, kept by the digest of its compressed bytes.

::

    compressed/<sha256>.zst    the compressed bytes, named by their own digest (.gz for gzip)
    compressed/<key>.json      which of them a layer came to, with this method and library

A tar is cut into blocks of one size, and each block becomes a frame (zstd) or member (gzip) of its
own. All cores work on one layer, and the bytes do not depend on how many there are.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import zstandard

from builder.errors import UsageError
from builder.files import disk_errors, require_space, write_text
from builder.limits import SETTINGS_BYTES, read_file
from builder.removal import remove_file
from builder.store.content_store import Store
from builder.store.verification import is_as_hashed, move_into_place, verified_size

FOLDER = "compressed"
FORMAT = 1  # raise it when the same tar is to become other bytes
BLOCK_BYTES = 8 << 20  # on the largest wheel, larger blocks gain under 1 %
ZSTD_LEVEL = 3
GZIP_LEVEL = 6


class Compression(StrEnum):
    """How layers are compressed; the value ends the media type of such a layer."""

    ZSTD = "zstd"
    GZIP = "gzip"

    @property
    def extension(self) -> str:
        """Return the end of the file's name."""
        return {"zstd": "zst", "gzip": "gz"}[self]

    @property
    def library(self) -> str:
        """Return what decides about the bytes besides the tar: library, version and level."""
        if self is Compression.ZSTD:
            version = ".".join(map(str, zstandard.ZSTD_VERSION))
            return f"zstd {version} level {ZSTD_LEVEL}"
        return f"zlib {zlib.ZLIB_RUNTIME_VERSION} level {GZIP_LEVEL}"


@dataclass(frozen=True)
class CompressedLayer:
    """A compressed layer in the store: digests in hexadecimal; ``diff_id`` is that of the tar."""

    diff_id: str
    digest: str
    size: int
    path: Path
    compression: Compression


def find_compressed(store: Store, diff_id: str, compression: Compression
                    ) -> CompressedLayer | None:
    """Return the compressed bytes of a layer when the store has them and they can be trusted."""
    index = _index(store, diff_id, compression)
    try:
        facts = json.loads(read_file(index, SETTINGS_BYTES, "index of a compressed layer"))
        digest, size = str(facts["digest"]), int(facts["size"])
        path = _place(store, digest, compression)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError, UsageError):
        return None  # unreadable is the same as absent: the layer is compressed again
    if verified_size(path, _stamp(store, digest), digest, store.root) != size:
        return None
    os.utime(index)  # last use, for ``prune``
    return CompressedLayer(diff_id, digest, size, path, compression)


def compress(store: Store, source: Path, diff_id: str, compression: Compression,
             workers: int | None = None) -> CompressedLayer:
    """Return the layer's compressed bytes; make them from the tar ``source`` where missing.

    The tar is hashed while it is read, unless its stamp says that it is as it was when it was last
    hashed, both before and afterwards. Other bytes than ``diff_id`` says raise UsageError, and
    nothing is kept. Raises DiskError before or when the disk is full.
    """
    found = find_compressed(store, diff_id, compression)
    if found is not None:
        return found
    require_space(store.root, source.stat().st_size, "for a compressed layer")
    (store.root / FOLDER).mkdir(exist_ok=True)
    with store.temporary("layer") as temporary, disk_errors(store.root, "while compressing"):
        stamp = _stamp(store, diff_id)
        known = is_as_hashed(source, stamp)
        digest, size, read = _write(source, temporary, compression, workers, hashed=not known)
        if read != diff_id and not (known and is_as_hashed(source, stamp)):
            raise _other_bytes(source)
        path = _place(store, digest, compression)
        if verified_size(path, _stamp(store, digest), digest, store.root) == size:
            remove_file(temporary, temporary.parent)
        else:
            move_into_place(temporary, path, _stamp(store, digest))
        write_text(_index(store, diff_id, compression), json.dumps(
            {"digest": digest, "size": size, "diff_id": diff_id}, sort_keys=True) + "\n")
    return CompressedLayer(diff_id, digest, size, path, compression)


def blocks_compressed(blocks: Iterable[bytes], compression: Compression,
                      workers: int | None = None) -> Iterator[bytes]:
    """Yield each block compressed, in order; at most twice ``workers`` blocks are in memory."""
    count = workers or os.cpu_count() or 1
    pack = _packer(compression)
    with ThreadPoolExecutor(count) as pool:
        waiting: deque[Future[bytes]] = deque()
        for block in blocks:
            waiting.append(pool.submit(pack, block))
            if len(waiting) >= 2 * count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _write(source: Path, target: Path, compression: Compression, workers: int | None, *,
           hashed: bool) -> tuple[str, int, str]:
    """Compress a file; return the result's digest and size, and what was read's where hashed."""
    before, after, size = hashlib.sha256(), hashlib.sha256(), 0

    def blocks() -> Iterator[bytes]:
        with source.open("rb", buffering=0) as stream:
            while block := stream.read(BLOCK_BYTES):
                if hashed:
                    before.update(block)
                yield block

    with target.open("wb") as stream:
        for chunk in blocks_compressed(blocks(), compression, workers):
            after.update(chunk)
            stream.write(chunk)
            size += len(chunk)
    return after.hexdigest(), size, before.hexdigest() if hashed else ""


def _other_bytes(source: Path) -> UsageError:
    return UsageError("a layer's tar does not hold the bytes that its name says",
                      where=str(source), next_step="run the same command again: the layer is "
                      "checked, and made again by the next build where it is damaged")


def _packer(compression: Compression) -> Callable[[bytes], bytes]:
    if compression is Compression.ZSTD:
        # One compressor for each block: they must not be shared between threads.
        return lambda block: zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(block)
    return _gzip_member


def _gzip_member(block: bytes) -> bytes:
    # Unlike gzip.compress it writes no time and no name into the header, in any version.
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(block) + packer.flush()


def _index(store: Store, diff_id: str, compression: Compression) -> Path:
    text = json.dumps([FORMAT, BLOCK_BYTES, compression.library, diff_id])
    return store.root / FOLDER / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


def _place(store: Store, digest: str, compression: Compression) -> Path:
    store.layer_path(digest)  # raises ValueError for what is no digest
    return store.root / FOLDER / f"{digest}.{compression.extension}"


def _stamp(store: Store, digest: str) -> Path:
    return store.root / "stamps" / f"{digest}.json"
