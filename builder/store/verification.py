"""Which files of the store may be trusted without reading them again.

A stamp records what the file system said about a file when its bytes were last hashed: size,
times of change and inode. Whoever alters a file, even to the same size and with its old
modification time, changes the inode's change time, which no program can set; then the file is
hashed again.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from builder import console
from builder.files import sha256_file, write_text
from builder.removal import remove_file


@dataclass(frozen=True)
class Stamp:
    """What ``stat`` says of a file; times in nanoseconds."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of the file as it is now; raises FileNotFoundError."""
    found = path.stat()
    return Stamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def write_stamp(record: Path, path: Path) -> None:
    """Record that ``path`` was hashed just now and held what its name says."""
    write_text(record, json.dumps(asdict(stamp_of(path))) + "\n")


def verified_size(path: Path, record: Path, sha256: str, root: Path) -> int | None:
    """Return the size of ``path`` when its bytes are those of ``sha256``, else None.

    The file is read only where its stamp is absent or differs. Other bytes are removed, from the
    store at ``root``; nothing is judged by its size.
    """
    try:
        before = stamp_of(path)
    except FileNotFoundError:
        return None
    if _read(record) == before:
        return before.size
    if sha256_file(path) == sha256 and stamp_of(path) == before:
        write_stamp(record, path)
        return before.size
    console.warn(f"{path.name} in the cache was altered or cut short: removed, to be made again")
    remove_file(path, root)
    remove_file(record, root)
    return None


def is_as_hashed(path: Path, record: Path) -> bool:
    """Say whether ``path`` is as it was when its bytes were last hashed; they are not read."""
    try:
        return _read(record) == stamp_of(path)
    except FileNotFoundError:
        return False


def move_into_place(source: Path, target: Path, record: Path) -> None:
    """Move a complete, hashed file to its final name and stamp it; survives a power cut."""
    descriptor = os.open(source, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    source.chmod(0o444)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
    write_stamp(record, target)


def _read(record: Path) -> Stamp | None:
    try:
        return Stamp(**json.loads(record.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None  # unreadable is the same as absent: the file is hashed again
