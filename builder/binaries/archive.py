"""A wheel as an archive: what it claims to hold, checked before a byte of it is inflated.

A wheel that would unpack to far more than it weighs, whose members overlap or whose directory is
absurd is never opened: that bounds memory and time.
"""

from __future__ import annotations

import stat
import struct
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from builder.binaries.facts import Damage
from builder.tarball import why_not

MAX_DIRECTORY_BYTES = 32 << 20  # flashinfer-cubin's 10,600 members need 3 MB
MAX_RATIO = 100  # unpacked to packed; honest wheels stay below 10
FREE_BYTES = 1 << 30  # below that, no ratio is too high
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_TAIL_BYTES = _END.size + 0xFFFF
_LOCAL_HEADER_BYTES = 30
_SET_ID = stat.S_ISUID | stat.S_ISGID


class UnsafeError(Exception):
    """The archive must not be opened; carries the damage that says why."""

    def __init__(self, damage: Damage) -> None:
        """Keep ``damage``."""
        super().__init__(damage.detail)
        self.damage = damage


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open a wheel; raise UnsafeError where that, or inflating it, would be unsafe."""
    try:
        _check_directory(path)
        opened = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
        raise UnsafeError(Damage("wheel-unreadable", "", f"not a whole zip file: {error}")
                          ) from error
    damage = _too_much(opened, path.stat().st_size)
    if damage is not None:
        opened.close()
        raise UnsafeError(damage)
    return opened


def _check_directory(path: Path) -> None:
    """Refuse a directory that zipfile, which reads it as a whole, would need gigabytes for."""
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _TAIL_BYTES - 76))
        tail = stream.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or at + _END.size > len(tail):
        raise zipfile.BadZipFile("its directory, at the end, is missing")
    length = _END.unpack_from(tail, at)[5]
    at = tail.rfind(b"PK\6\6")
    if at >= 0 and at + _END64.size <= len(tail):
        length = max(length if length != 0xFFFFFFFF else 0, _END64.unpack_from(tail, at)[8])
    if length > MAX_DIRECTORY_BYTES:
        raise zipfile.BadZipFile(f"a directory of {length} bytes")


def _too_much(opened: zipfile.ZipFile, size: int) -> Damage | None:
    items = sorted(opened.infolist(), key=lambda item: item.header_offset)
    unpacked = sum(item.file_size for item in items)
    if unpacked > max(FREE_BYTES, MAX_RATIO * size):
        return Damage("zip-bomb", "", f"{size} bytes would unpack to {unpacked}")
    end = 0
    for item in items:
        if item.header_offset < end:
            return Damage("overlapping-members", item.filename, "its bytes are another's too")
        end = item.header_offset + _LOCAL_HEADER_BYTES + item.compress_size
    return None


def misplaced(opened: zipfile.ZipFile) -> Iterator[Damage]:
    """Yield what must not be in a wheel, judged by names and attributes alone."""
    counts = Counter(item.filename for item in opened.infolist())
    yield from (Damage("duplicate-member", name, f"{count} members have this name")
                for name, count in counts.items() if count > 1)
    for item in opened.infolist():
        reason = why_not(item.orig_filename.removesuffix("/"))
        if reason:
            yield Damage("unsafe-path", item.orig_filename, reason)
        mode = item.external_attr >> 16
        if mode & _SET_ID and stat.S_IFMT(mode) in (0, stat.S_IFREG):
            yield Damage("set-id", item.filename, f"mode {stat.S_IMODE(mode):04o}")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            yield Damage("not-a-file", item.filename, "is a link or a device")


def installed_path(member: str) -> str:
    """Return where a member is installed, relative to site-packages, as RECORD would name it.

    Headers' folder holds the version of Python, which a wheel does not know; it is left out.
    """
    top, _, rest = member.partition("/")
    if not top.endswith(".data") or "/" not in rest:
        return member
    scheme, _, inner = rest.partition("/")
    folders = {"purelib": "", "platlib": "", "scripts": "../../../bin/", "data": "../../../",
               "headers": f"../../../include/site/{top.split('-')[0]}/"}
    return folders.get(scheme, f"{top}/{scheme}/") + inner
