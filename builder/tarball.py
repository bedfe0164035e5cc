"""Normalised tars: the same entries give the same bytes, and so the same digest, on any machine.

Sorted names, one fixed time, owner 0:0 without names, modes 0644 and 0755, every parent folder
inside the tar, and ustar headers (pax ones only for what ustar cannot hold: long or non-ASCII
names, 8 GiB and more). Everything is streamed; a member is never whole in memory.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MTIME = 315_532_800  # 1980-01-01, the oldest time that a zip file can hold as well
CHUNK_BYTES = 1 << 20
MAX_HEADER = 1 << 20  # of a long name or extended attributes; Linux allows 64 kB of these
_HEADERS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE,
            tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
# What a damaged or strange archive raises that is read with BoundedInfo, beside OSError.
TAR_FAULTS = (tarfile.TarError, zlib.error, EOFError, UnicodeError)
_SPARSE = "it holds a sparse file, which no engine writes"
_WHITEOUT = ".wh."  # in a layer such a name deletes what lies below it
_STRANGE = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")

Chunks = Callable[[], Iterator[bytes]]
Step = Callable[[int], None]


@dataclass(frozen=True)
class File:
    """A regular file: its path from the root (``opt/x``), its bytes, and how to read them."""

    path: str
    size: int
    read: Chunks
    executable: bool = False


@dataclass(frozen=True)
class Link:
    """A symbolic link of our own making; no wheel may bring one."""

    path: str
    target: str


@dataclass(frozen=True)
class Folder:
    """A folder that is there even when nothing lies in it."""

    path: str
    mode: int = 0o755


Entry = File | Link | Folder


@dataclass(frozen=True)
class Tar:
    """A complete tar: its path, the sha256 of its bytes, and how many there are."""

    path: Path
    digest: str
    size: int


def in_memory(path: str, data: bytes, *, executable: bool = False) -> File:
    """Return a file whose bytes are at hand; for small ones that we write ourselves."""
    return File(path, len(data), lambda: iter((data,)), executable)


def write_tar(target: Path, entries: Iterable[Entry], step: Step = lambda _count: None) -> Tar:
    """Write ``entries`` in the order of their paths to ``target``, hashing on the way.

    ``step`` is told the number of bytes written, again and again. Raises ValueError for a path
    that is there twice, is not plain, or would be a whiteout; and for a file that does not hold
    as many bytes as it says.
    """
    state = hashlib.sha256()
    with target.open("wb", buffering=CHUNK_BYTES) as stream:
        size = 0
        for block in _blocks(with_parents(entries)):
            state.update(block)
            stream.write(block)
            size += len(block)
            step(len(block))
    return Tar(target, state.hexdigest(), size)


def with_parents(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries sorted, with every folder above them; raises ValueError as above."""
    chosen: dict[str, Entry] = {}
    for entry in entries:
        reason = why_not(entry.path)
        if reason:
            raise ValueError(f"{entry.path!r} {reason}")
        if chosen.setdefault(entry.path, entry) != entry:
            raise ValueError(f"{entry.path!r} is there twice")
    leaves = {path for path, entry in chosen.items() if not isinstance(entry, Folder)}
    for path in list(chosen):
        for parent in parents(path):
            if parent in leaves:
                raise ValueError(f"{parent!r} is a file and the folder of {path!r}")
            chosen.setdefault(parent, Folder(parent))
    return [chosen[path] for path in sorted(chosen)]


def parents(path: str) -> list[str]:
    """Return the folders above ``a/b/c``: ``a/b``, ``a``."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def why_not(path: str) -> str:
    """Say why a path may not enter a tar, or nothing when it may."""
    parts = path.split("/")
    if path.startswith("/"):
        return "is an absolute path"
    if ".." in parts:
        return "leads out of its folder"
    if "" in parts or "." in parts or _STRANGE.search(path):
        return "is not a plain path"
    if any(part.startswith(_WHITEOUT) for part in parts):
        return "would delete files below its layer (.wh.)"
    return ""


class BoundedInfo(tarfile.TarInfo):
    """A member of a foreign tar, whose headers cannot fill the memory.

    tarfile alone reads a name of gigabytes, and a list of holes without end.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo | None:
        if self.type in _HEADERS and self.size > MAX_HEADER:
            raise tarfile.ReadError(f"it has a header of {self.size} bytes")
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError(_SPARSE)
        try:
            return super()._proc_member(archive)  # type: ignore[misc,no-any-return]
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
            raise tarfile.ReadError("it has a header that cannot be read") from error

    def _proc_gnusparse_10(self, *_: object) -> None:
        raise tarfile.ReadError(_SPARSE)


def read_files(source: Path) -> list[File]:
    """Return the files of a tar that ``write_tar`` wrote, to be streamed into another one."""
    found = []
    with tarfile.open(source, "r:") as archive:
        for member in archive:
            if member.isreg():
                read = file_slice(source, member.offset_data, member.size)
                found.append(File(member.name, member.size, read, bool(member.mode & 0o100)))
    return found


def content(file: File) -> bytes:
    """Return all bytes of a small file."""
    return b"".join(file.read())


def file_slice(source: Path, offset: int, size: int) -> Chunks:
    """Return a reader of ``size`` bytes of a file, to be opened only when they are wanted."""
    def read() -> Iterator[bytes]:
        with source.open("rb", buffering=0) as stream:
            stream.seek(offset)
            yield from chunks_of(stream, size)
    return read


def chunks_of(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield ``size`` bytes of ``stream``, fewer where it ends early."""
    left = size
    while left and (chunk := stream.read(min(left, CHUNK_BYTES))):
        left -= len(chunk)
        yield chunk


def _blocks(entries: Sequence[Entry]) -> Iterator[bytes]:
    for entry in entries:
        yield _header(entry)
        if isinstance(entry, File):
            yield from _body(entry)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _body(file: File) -> Iterator[bytes]:
    count = 0
    for chunk in file.read():
        count += len(chunk)
        if count > file.size:
            break  # do not go on inflating what was never announced
        yield chunk
    if count != file.size:
        raise ValueError(f"{file.path!r} does not hold the {file.size} bytes that it should")
    yield bytes(-count % tarfile.BLOCKSIZE)


def _header(entry: Entry) -> bytes:
    """Return the header blocks; the library's own, for they are the same in every version."""
    info = tarfile.TarInfo(entry.path)
    info.mtime = MTIME
    match entry:
        case File():
            info.size, info.mode = entry.size, 0o755 if entry.executable else 0o644
        case Link():
            info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.target, 0o777
        case Folder():
            info.type, info.mode = tarfile.DIRTYPE, entry.mode
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
