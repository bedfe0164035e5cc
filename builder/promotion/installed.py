"""What is really in an image: its layers streamed from the registry, hashed, and looked into.

Nothing is kept on disk. Of the files only the metadata of Python distributions and Debian's
package database are read; all bytes are hashed, compressed and unpacked.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from email.parser import HeaderParser
from functools import partial
from typing import IO, cast

import zstandard
from packaging.utils import canonicalize_name

from builder.engine.client import RemoteLayer
from builder.errors import NetworkError
from builder.limits import ENGINE_TRANSFER_S, MB, MODULE_BYTES, TooMuchError, bounded
from builder.promotion.contents import RemoteImage
from builder.registry.repository import Repository
from builder.tarball import TAR_FAULTS, BoundedInfo

STATUS_BYTES = 64 * MB  # Debian's package database; one of 154 packages has 0.2 MB
LAYER_BYTES = 32_000 * MB  # of one layer, compressed; the largest here has 0.9 GB
UNPACKED_BYTES = 64_000 * MB  # of one layer; a few megabytes can stand for any number of zeros
TEXT_BYTES = 256 * MB  # of all metadata; that of 200 wheels has 7 MB
CHUNK_BYTES = 1 << 20
_METADATA = re.compile(r"(?:.*/)?site-packages/[^/]+\.dist-info/METADATA")
_STATUS = "var/lib/dpkg/status"
_DAMAGED = (OSError, zstandard.ZstdError, TooMuchError, *TAR_FAULTS)
Step = Callable[[int], None]


@dataclass
class Installed:
    """The wheels and Debian packages of an image, and the layers whose bytes are wrong."""

    wheels: dict[str, set[str]] = field(default_factory=dict)
    debs: dict[str, str] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)


class _Source(io.RawIOBase):
    """Pieces as a file, hashed as they are read."""

    def __init__(self, pieces: Iterable[bytes], step: Step) -> None:
        """Nothing is read yet."""
        self._pieces, self._step, self._rest = iter(pieces), step, b""
        self.hash, self.size = hashlib.sha256(), 0

    def readable(self) -> bool:
        """Say yes: it is for reading only."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill a buffer as far as there are bytes."""
        if not self._rest:
            self._rest = next(self._pieces, b"")
            self.hash.update(self._rest)
            self.size += len(self._rest)
            self._step(len(self._rest))
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        count = min(len(view), len(self._rest))
        view[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def drain(self) -> None:
        """Read to the end."""
        while self.read(CHUNK_BYTES):
            pass


def read_installed(repository: Repository, image: RemoteImage, step: Step) -> Installed:
    """Stream every layer, the lowest first; raises NetworkError where one does not come."""
    found, files = Installed(), dict[str, str]()
    listed = image.manifest.value.get("layers")
    types = [str(one.get("mediaType")) for one in listed] if isinstance(listed, list) else []
    diff_ids = image.diff_ids
    if len(diff_ids) != len(image.layers):
        found.damaged.append(f"the configuration names {len(diff_ids)} layers, the manifest "
                             f"{len(image.layers)}")
    for layer, kind, diff_id in zip(image.layers, types, diff_ids, strict=False):
        problem = _layer(repository, layer, kind, diff_id, files, step)
        if problem:
            found.damaged.append(problem)
    for path, text in files.items():
        _understand(path, text, found)
    return found


def _layer(repository: Repository, layer: RemoteLayer, kind: str, diff_id: str,
           files: dict[str, str], step: Step) -> str:
    """Read one layer's files into ``files``; return what is wrong with its bytes, or nothing."""
    source = _Source(repository.stream(layer.digest, LAYER_BYTES), step)
    unpacked, reason = "", ""
    try:
        inner = _Source(_unpacked(source, kind), lambda _count: None)
        _collect(inner, files)
        inner.drain()
        unpacked = f"sha256:{inner.hash.hexdigest()}"
    except NetworkError:
        raise
    except _DAMAGED as error:
        reason = f" ({type(error).__name__})"
    source.drain()
    actual = f"sha256:{source.hash.hexdigest()}"
    if (actual, source.size) != (layer.digest, layer.size):
        return (f"layer {layer.digest}: the registry has other bytes, {actual}, "
                f"{source.size} bytes{reason}")
    if unpacked != diff_id:
        return (f"layer {layer.digest}: it unpacks to {unpacked or 'nothing'}{reason}, the "
                f"configuration says {diff_id}")
    return ""


def _unpacked(source: _Source, kind: str) -> Iterator[bytes]:
    stream: IO[bytes] = cast("IO[bytes]", source)
    if kind.endswith("zstd"):
        stream = cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(
            stream, read_across_frames=True))
    elif kind.endswith("gzip"):
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=io.BufferedReader(source), mode="rb"))
    yield from bounded(iter(partial(stream.read, CHUNK_BYTES), b""), UNPACKED_BYTES,
                       ENGINE_TRANSFER_S)


def _collect(stream: _Source, files: dict[str, str]) -> None:
    """Keep the texts that matter, by path; a file of an upper layer replaces a lower one's."""
    buffered = cast("IO[bytes]", io.BufferedReader(stream, CHUNK_BYTES))
    with tarfile.open(fileobj=buffered, mode="r|", tarinfo=BoundedInfo) as archive:
        while (member := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # or it keeps every one
            path = member.name.removeprefix("./").lstrip("/")
            _whiteout(path, files)
            limit = STATUS_BYTES if path == _STATUS else MODULE_BYTES
            if (path == _STATUS or _METADATA.fullmatch(path)) and member.isreg():
                data = archive.extractfile(member)
                files[path] = data.read(limit).decode("utf-8", "replace") if data else ""
                if sum(map(len, files.values())) > TEXT_BYTES:
                    raise TooMuchError(f"more than {TEXT_BYTES // MB} MB of metadata")
    while buffered.read(CHUNK_BYTES):
        pass


def _whiteout(path: str, files: dict[str, str]) -> None:
    folder, _, name = path.rpartition("/")
    gone = ""
    if name == ".wh..wh..opq":
        gone = f"{folder}/"
    elif name.startswith(".wh."):
        gone = f"{folder}/{name.removeprefix('.wh.')}"
    for other in [known for known in files if gone and (known == gone or known.startswith(
            gone if gone.endswith("/") else f"{gone}/"))]:
        del files[other]


def _understand(path: str, text: str, found: Installed) -> None:
    if path != _STATUS:
        fields = HeaderParser().parsestr(text)
        name = canonicalize_name(str(fields.get("Name") or path))
        found.wheels.setdefault(name, set()).add(str(fields.get("Version") or ""))
        return
    for block in text.split("\n\n"):
        fields = HeaderParser().parsestr(block)
        if fields.get("Package") and str(fields.get("Status", "")).endswith(" installed"):
            found.debs[str(fields["Package"])] = str(fields["Version"])
