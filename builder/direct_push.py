"""A built image to the registry without the engine: the store's tars, compressed once, by HTTP.

``image on the engine -> which tars it was made of -> compress -> send blobs -> manifest, last``

The engine packs each layer anew, in its own way, and its tars are nobody else's. Here the layers
are the store's own tars, so every machine with the same lock and base pushes the same digests.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from builder import console
from builder import labels as label
from builder.engine.archive import extract_layer
from builder.engine.client import Engine, RemoteLayer
from builder.errors import EngineError, command
from builder.registry.client import Client
from builder.registry.manifest import ManifestLayer, image_config, image_manifest, put_manifest
from builder.registry.reference import parse
from builder.registry.upload import Blob, Delivered, Outcome, Uploader
from builder.removal import remove_file
from builder.store.compressed import CompressedLayer, Compression, compress, find_compressed
from builder.store.content_store import Store

JOURNALS = "uploads"
SENDERS = 4  # uploads at once: while a registry hashes one blob, it takes in others
_ADD = re.compile(r"ADD ([0-9a-f]{64})\.tar / # buildkit")
_NO_FILES = re.compile(r"(CMD|WORKDIR|EXPOSE|ENV|LABEL) .*", re.DOTALL)


@dataclass(frozen=True)
class Parts:
    """What an image was made of: its base's layers and the store's tars, by DiffID (hex)."""

    base: str
    base_layers: tuple[str, ...]
    layers: tuple[str, ...]


@dataclass(frozen=True)
class DirectPush:
    """What a push came to: digests, layers, how each blob came to be there, and the time."""

    reference: str
    digest: str
    config: str
    layers: tuple[RemoteLayer, ...]
    delivered: tuple[Delivered, ...]
    compress_seconds: float
    seconds: float

    def bytes_by(self, outcome: Outcome) -> int:
        """Return the bytes of the blobs that came to be there in this way."""
        return sum(item.blob.size for item in self.delivered if item.outcome is outcome)

    def count_by(self, outcome: Outcome) -> int:
        """Return how many blobs came to be there in this way."""
        return sum(item.outcome is outcome for item in self.delivered)

    @property
    def sent(self) -> int:
        """Return the bytes that this run sent; less than the blobs' where it continued one."""
        return sum(item.sent for item in self.delivered)


def push_direct(engine: Engine, store: Store, image: Mapping[str, Any], tags: Sequence[str],
                siblings: Sequence[str], compression: Compression,
                known: Callable[[str], object] = lambda _digest: None) -> DirectPush:
    """Push the image under each of ``tags`` (full names in one repository), manifest last.

    ``image`` is what the engine says of it, ``siblings`` are repositories of the same registry
    that may have some of its layers. ``known`` is told the manifest's digest as soon as all layers
    are compressed, while they are still on their way. Raises NetworkError, DiskError, and
    EngineError where the tars that it was made of are not there any more.
    """
    started = time.monotonic()
    parts = parts_of(engine, store, image, compression)
    reference = parse(tags[0])
    client = Client(reference)
    layers: list[ManifestLayer] = []
    with console.progress("push") as meter:
        uploader = Uploader(client, store.root / JOURNALS, siblings,
                            meter.advance)
        with ThreadPoolExecutor(SENDERS) as pool:
            sending: dict[str, Future[Delivered]] = {}

            def send(blob: Blob) -> None:
                if blob.digest not in sending:
                    sending[blob.digest] = pool.submit(uploader.deliver, blob)
                _raise_first(sending.values())

            try:
                for layer in _compressed_before(store, parts, compression):
                    send(_manifest_layer(layer, parts).blob)
                for layer in _compressed(engine, store, parts, compression):
                    layers.append(_manifest_layer(layer, parts))
                    send(layers[-1].blob)
                compressed_at = time.monotonic()
                config = image_config(image, layers)
                manifest = image_manifest(config, layers)
                known(manifest.digest)
                wait(sending.values(), return_when=FIRST_EXCEPTION)
                delivered = [future.result() for future in sending.values()]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        delivered.append(uploader.deliver(config))
    for tag in tags:
        put_manifest(client, manifest, parse(tag).tag)
    return DirectPush(
        tags[0], manifest.digest, config.digest,
        tuple(RemoteLayer(layer.blob.digest, layer.blob.size) for layer in layers),
        tuple(delivered), compressed_at - started, time.monotonic() - started)


def parts_of(engine: Engine, store: Store, image: Mapping[str, Any],
             compression: Compression) -> Parts:
    """Read from the image's history and labels what it was made of.

    Raises EngineError where that is no image of ours, or the base or a tar of it is gone.
    """
    name = (image["Config"].get("Labels") or {}).get(label.PREFIX + "base.id", "")
    base = engine.image_document(name) if name else None
    if base is None:
        raise _impossible("its base image is not on the engine", image)
    below: list[str] = base["RootFS"]["Layers"]
    if image["RootFS"]["Layers"][:len(below)] != below:
        raise _impossible("it does not stand on the base that its label names", image)
    own = engine.history(image["Id"])[::-1][len(engine.history(name)):]
    adds = [match[1] for step in own if (match := _ADD.fullmatch(step))]
    strange = [step for step in own if not _ADD.fullmatch(step) and not _NO_FILES.fullmatch(step)]
    if strange or not adds:
        raise _impossible("not all of its layers are tars of the store", image)
    missing = [digest for digest in adds if not (
        store.layer_path(digest).is_file() or find_compressed(store, digest, compression))]
    if missing:
        raise _impossible(f"{len(missing)} of the tars that it was made of are gone from the cache",
                          image)
    return Parts(name, tuple(digest.removeprefix("sha256:") for digest in below), tuple(adds))


def _impossible(reason: str, image: Mapping[str, Any]) -> EngineError:
    cell = (image["Config"].get("Labels") or {}).get(label.CELL, "CELL")
    return EngineError(f"this image cannot be pushed without the engine: {reason}",
                       where=image["Id"],
                       next_step=f"build it again ({command('build', cell)}), or push it with the "
                       f"engine ({command('push', cell)})")


def _compressed_before(store: Store, parts: Parts, compression: Compression
                       ) -> list[CompressedLayer]:
    """Return the layers that need no work, the largest first: none is then sent last and alone."""
    found = (find_compressed(store, digest, compression)
             for digest in (*parts.base_layers, *parts.layers))
    return sorted((layer for layer in found if layer), key=lambda layer: -layer.size)


def _compressed(engine: Engine, store: Store, parts: Parts, compression: Compression
                ) -> Iterator[CompressedLayer]:
    """Yield the image's layers from the lowest to the topmost, each compressed when needed."""
    yield from _base_layers(engine, store, parts, compression)
    for digest in parts.layers:
        yield compress(store, store.layer_path(digest), digest, compression)


def _base_layers(engine: Engine, store: Store, parts: Parts, compression: Compression
                 ) -> list[CompressedLayer]:
    """Return the base's layers; those that were never compressed are got from the engine."""
    found = [find_compressed(store, digest, compression) for digest in parts.base_layers]
    if all(found):
        return [layer for layer in found if layer]
    console.info("taking the base's layers from the engine, once")
    made = []
    with store.temporary("base.tar") as archive:
        engine.save(parts.base, archive)
        for number, digest in enumerate(parts.base_layers):
            tar = archive.with_name("layer.tar")
            extract_layer(archive, number, tar)
            made.append(compress(store, tar, digest, compression))
            remove_file(tar, archive.parent)
    return made


def _manifest_layer(layer: CompressedLayer, parts: Parts) -> ManifestLayer:
    made_by = "sparkyard base" if layer.diff_id in parts.base_layers else "sparkyard layer"
    return ManifestLayer(f"sha256:{layer.diff_id}",
                         Blob(f"sha256:{layer.digest}", layer.size, layer.path),
                         layer.compression.value, made_by)


def _raise_first(futures: Iterable[Future[Delivered]]) -> None:
    """Raise what one of the uploads raised, so that nothing more is compressed in vain."""
    for future in futures:
        if future.done():
            future.result()
