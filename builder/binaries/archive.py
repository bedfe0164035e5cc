"""A wheel as an archive: what it claims to hold, checked before a byte of it is unpacked.

A wheel that would unpack to far more than its own size, whose members overlap or whose directory
is absurd is never opened: that bounds memory and time. RECORD, the wheel's own list of its files
and their hashes, is compared with what is there.
"""

from __future__ import annotations

import csv
import os
import stat
import struct
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from builder.binaries.facts import Damage
from builder.locking.findings import FindingCode
from builder.tarball import why_not

MAX_DIRECTORY_BYTES = 16 << 20  # flashinfer-cubin's 10,600 members need 3 MB
MAX_MEMBERS = 100_000  # torch has 12,000
MAX_RATIO = 100  # unpacked to packed; honest wheels stay below 10
FREE_BYTES = 1 << 30  # below that, no ratio is too high
MAX_UNPACKED = 64 << 30  # the largest wheel seen unpacks to 2 GB
MAX_PATH = 4096  # Linux opens no longer path
_LOCAL_HEADER_BYTES = 30
_SET_ID = stat.S_ISUID | stat.S_ISGID
_UNLISTED = ("/RECORD", "/RECORD.jws", "/RECORD.p7s")  # of .dist-info; cannot list themselves


class UnsafeError(Exception):
    """The archive must not be opened; carries the damage that says why."""

    def __init__(self, damage: Damage) -> None:
        """Keep ``damage``."""
        super().__init__(damage.detail)
        self.damage = damage


class _Stream:
    """A file that zipfile reads: no single read, such as that of the directory, is too large."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, os.SEEK_END)

    def read(self, count: int = -1) -> bytes:
        wanted = self._size - self._file.tell() if count < 0 else count
        if wanted > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"it has a directory of {wanted} bytes")
        return self._file.read(count)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a wheel; raise UnsafeError where that, or unpacking it, would be unsafe."""
    with path.open("rb") as file:
        try:
            opened = zipfile.ZipFile(cast(IO[bytes], _Stream(file)))
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError,
                struct.error) as error:
            raise UnsafeError(Damage(FindingCode.WHEEL_UNREADABLE, "",
                                     f"this is not a complete zip file: {error}")) from error
        with opened:
            damage = _too_much(opened, path.stat().st_size)
            if damage is not None:
                raise UnsafeError(damage)
            yield opened


def _too_much(opened: zipfile.ZipFile, size: int) -> Damage | None:
    items = sorted(opened.infolist(), key=lambda item: item.header_offset)
    if len(items) > MAX_MEMBERS:
        return Damage(FindingCode.ZIP_BOMB, "", f"it has {len(items)} members")
    unpacked = sum(item.file_size for item in items)
    if unpacked > min(MAX_UNPACKED, max(FREE_BYTES, MAX_RATIO * size)):
        return Damage(FindingCode.ZIP_BOMB, "", f"{size} bytes would unpack to {unpacked}")
    end = 0
    for item in items:
        if item.header_offset < end:
            return Damage(FindingCode.OVERLAPPING_MEMBERS, item.filename,
                          "shares bytes with another member")
        end = item.header_offset + _LOCAL_HEADER_BYTES + item.compress_size
    return None


def misplaced(opened: zipfile.ZipFile) -> Iterator[Damage]:
    """Yield members that no wheel may have, by their names and attributes alone."""
    counts = Counter(item.filename for item in opened.infolist())
    yield from (Damage(FindingCode.DUPLICATE_MEMBER, name, f"{count} members have this name")
                for name, count in counts.items() if count > 1)
    for item in opened.infolist():
        reason = (f"is longer than {MAX_PATH} characters" if len(item.orig_filename) > MAX_PATH
                  else why_not(item.orig_filename.removesuffix("/")))
        if reason:
            yield Damage(FindingCode.UNSAFE_PATH, item.orig_filename[:MAX_PATH], reason)
        mode = item.external_attr >> 16
        if mode & _SET_ID and stat.S_IFMT(mode) in (0, stat.S_IFREG):
            yield Damage(FindingCode.SET_ID, item.filename, f"mode {stat.S_IMODE(mode):04o}")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            yield Damage(FindingCode.NOT_A_FILE, item.filename, "is a link or a device")


def installed_path(member: str) -> str:
    """Return where a member is installed, relative to site-packages, as RECORD would name it.

    The folder of headers contains the version of Python, which a wheel does not know: left out.
    """
    top, _, rest = member.partition("/")
    if not top.endswith(".data") or "/" not in rest:
        return member
    scheme, _, inner = rest.partition("/")
    folders = {"purelib": "", "platlib": "", "scripts": "../../../bin/", "data": "../../../",
               "headers": f"../../../include/site/{top.split('-')[0]}/"}
    return folders.get(scheme, f"{top}/{scheme}/") + inner


def compare_record(record: str, members: Mapping[str, str], present: Collection[str]
                   ) -> Iterator[Damage]:
    """Yield where RECORD's text and the members (name to sha256 as RECORD spells it) differ.

    ``present`` are the names of all members, also of those that could not be read. Hashes of other
    kinds than sha256 are allowed by the format and not judged.
    """
    try:
        rows = {row[0]: row[1] for row in csv.reader(record.splitlines()) if len(row) >= 2}
    except csv.Error as error:
        yield Damage(FindingCode.RECORD_DAMAGED, "RECORD", str(error))
        return
    for name, digest in members.items():
        kind, _, listed = rows.get(name, "").partition("=")
        if name not in rows:
            if not (name.endswith(_UNLISTED) and name.count("/") == 1):
                yield Damage(FindingCode.RECORD_UNLISTED, name, "is not listed in RECORD")
        elif kind == "sha256" and listed.rstrip("=") != digest:
            yield Damage(FindingCode.RECORD_DIFFERS, name,
                         f"RECORD has sha256={listed}, the file has {digest}")
    yield from (Damage(FindingCode.RECORD_ABSENT, name, "is listed in RECORD, but not there")
                for name in rows if name not in present)
