"""A root file system into a normalised tar: the same packages give the same bytes.

Sorted names, owners and modes as they are, times no later than the base's epoch (compiled Python
names its source's time, so real times stay), no device files, and none of what only the making
of it left behind: logs, caches, back-ups, this machine's name and resolver.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from builder.errors import EngineError
from builder.tarball import CHUNK_BYTES, Tar

# Everything inside these folders is dropped; the folders stay.
EMPTIED = ("dev", "proc", "sys", "run", "tmp", "var/tmp", "var/log", "var/cache/apt",
           "var/cache/ldconfig", "var/lib/apt/lists", "var/lib/dpkg/updates")
DROPPED = ("etc/hostname", "etc/resolv.conf", "etc/machine-id", "etc/mtab", "etc/.pwd.lock",
           "etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "var/lib/dpkg/*-old",
           "var/lib/dpkg/lock*", "var/lib/dpkg/available", "var/lib/dpkg/triggers/Lock",
           "var/cache/debconf/*-old", "var/lib/systemd/*")
LEAVE_OUT = "add it to leave_out in images/base/slim.toml"
KINDS = {stat.S_IFREG: tarfile.REGTYPE, stat.S_IFDIR: tarfile.DIRTYPE,
         stat.S_IFLNK: tarfile.SYMTYPE}


def left_out(path: str, leave_out: Sequence[str], keep: Sequence[str]) -> bool:
    """Say whether a path (no leading slash) stays out of the image."""
    if path.startswith(tuple(f"{folder}/" for folder in EMPTIED)):
        return True
    if any(fnmatchcase(path, glob) for glob in DROPPED):
        return True
    return (any(fnmatchcase(path, glob) for glob in leave_out)
            and not any(fnmatchcase(path, glob) for glob in keep))


def write_rootfs(root: Path, target: Path, epoch: int, out: Callable[[str], bool]) -> Tar:
    """Write the tree at ``root`` to ``target``; ``out(path)`` leaves members out."""
    state, size = hashlib.sha256(), 0
    first_names: dict[tuple[int, int], str] = {}
    with target.open("wb", buffering=CHUNK_BYTES) as stream:
        for path in _members(root, out):
            info = _member(root / path, path, epoch, first_names)
            for block in _blocks(root / path, info):
                state.update(block)
                stream.write(block)
                size += len(block)
        end = bytes(2 * tarfile.BLOCKSIZE)
        state.update(end)
        stream.write(end)
    return Tar(target, state.hexdigest(), size + len(end))


def _members(root: Path, out: Callable[[str], bool]) -> list[str]:
    """Return the paths to write, sorted; a folder is left out only when nothing in it stays."""
    kept: set[str] = set()
    for folder, folders, files in os.walk(root):
        here = Path(folder).relative_to(root).as_posix()
        for name in [*folders, *files]:
            path = name if here == "." else f"{here}/{name}"
            if name.startswith(".wh."):
                raise EngineError("the base has a whiteout file, which would delete other files",
                                  where=path, next_step=LEAVE_OUT)
            if not out(path):
                kept.add(path)
                kept.update(_above(path))
    return sorted(kept)


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _member(file: Path, path: str, epoch: int,
            first_names: dict[tuple[int, int], str]) -> tarfile.TarInfo:
    """Return the header of one member; later names of one file become hard links to the first."""
    facts = file.lstat()
    info = tarfile.TarInfo(path)
    info.mode, info.uid, info.gid = stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid
    info.mtime = min(int(facts.st_mtime), epoch)
    kind = stat.S_IFMT(facts.st_mode)
    if kind not in KINDS:
        raise EngineError("the base has a member that is not a file, folder or link",
                          where=path, next_step=LEAVE_OUT)
    info.type = KINDS[kind]
    if kind == stat.S_IFLNK:
        info.linkname, info.mode = str(file.readlink()), 0o777
    elif kind == stat.S_IFREG:
        first = first_names.setdefault((facts.st_dev, facts.st_ino), path)
        if first != path:
            info.type, info.linkname = tarfile.LNKTYPE, first
        else:
            info.size = facts.st_size
    return info


def _blocks(file: Path, info: tarfile.TarInfo) -> Iterator[bytes]:
    yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    if info.type != tarfile.REGTYPE:
        return
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
    yield bytes(-info.size % tarfile.BLOCKSIZE)
