"""A patched wheel as a file: the published one's members as they are, but for what changed.

Unchanged members are copied still compressed and changed ones stored plain, so that the bytes do
not depend on the machine's zlib: the same wheel and patches give the same file anywhere.
"""

from __future__ import annotations

import copy
import shutil
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from installer.records import InvalidRecordEntry, parse_record_file

from builder.errors import PatchError
from builder.layers.distinfo import Row, render
from builder.patches.apply import Blob
from builder.patches.revision import PROVENANCE, Revision
from builder.tarball import chunks_of

_TIME = (1980, 1, 1, 0, 0, 0)
_LOCAL = struct.Struct("<26xHH")  # the lengths of name and extra field, at a member's data


def write_wheel(source: Path, target: Path, revision: Revision, note: str = PROVENANCE) -> None:
    """Write the patched form of ``source`` to ``target``; the caller gives it its final name.

    ``note`` is the name of the file in its metadata that says what was done.
    """
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", allowZip64=True) as new:
        info = info_of(old, source.name)
        record, fresh = f"{info}/RECORD", _fresh(old, info, revision, note)
        for item in old.infolist():
            name = revision.renamed(item.filename)
            if name not in fresh and item.filename != record and \
                    revision.changes.get(item.filename, item) is not None:
                copy_member(old, item, new, name)
        for name, blob in sorted(fresh.items()):
            store_member(new, name, blob)
        rows = record_rows(old.read(record), source.name)
        gone = frozenset(path for path, blob in revision.changes.items() if blob is None)
        signed = revision.rows(rows, {name: blob.data for name, blob in fresh.items()}, gone)
        folder = revision.renamed(record).partition("/")[0]
        store_member(new, f"{folder}/RECORD", Blob(render(signed, folder)))


def info_of(wheel: zipfile.ZipFile, name: str) -> str:
    """Return the folder of the wheel's metadata; raises PatchError where it is not whole."""
    names = wheel.namelist()
    found = [path.partition("/")[0] for path in names
             if path.endswith(".dist-info/RECORD") and path.count("/") == 1]
    if not found or f"{found[0]}/METADATA" not in names:
        raise PatchError("the wheel has no RECORD or no METADATA", where=name,
                         next_step="lock another version of the wheel")
    return found[0]


def record_rows(record: bytes, name: str) -> list[Row]:
    """Return the rows of a RECORD; raises PatchError where it is damaged."""
    try:
        return [row[:3] for row in parse_record_file(record.decode().splitlines())]
    except (InvalidRecordEntry, UnicodeDecodeError) as error:
        raise PatchError(f"the wheel's RECORD is damaged: {error}", where=name,
                         next_step="lock another version of the wheel") from error


def _fresh(old: zipfile.ZipFile, info: str, revision: Revision, note: str) -> dict[str, Blob]:
    """Return the files that are new or changed, by their names in the patched wheel."""
    fresh = {path: blob for path, blob in revision.changes.items() if blob}
    metadata = f"{info}/METADATA"
    fresh[revision.renamed(metadata)] = Blob(revision.metadata(old.read(metadata)))
    fresh[revision.renamed(f"{info}/{note}")] = Blob(revision.note)
    return fresh


def store_member(archive: zipfile.ZipFile, name: str, blob: Blob) -> None:
    """Write one member uncompressed, with a fixed time and mode."""
    item = zipfile.ZipInfo(name, _TIME)
    item.create_system = 3
    item.external_attr = (0o100755 if blob.executable else 0o100644) << 16
    archive.writestr(item, blob.data)


def store_file(archive: zipfile.ZipFile, old: zipfile.ZipInfo, name: str, source: Path) -> None:
    """Write a file as a member in place of ``old``, uncompressed and with the same mode."""
    item = zipfile.ZipInfo(name, _TIME)
    item.create_system, item.external_attr = old.create_system, old.external_attr
    item.file_size = source.stat().st_size
    with source.open("rb") as stream, archive.open(item, "w") as member:
        shutil.copyfileobj(stream, member, 1 << 20)


def copy_member(old: zipfile.ZipFile, item: zipfile.ZipInfo, new: zipfile.ZipFile, name: str
                ) -> None:
    """Copy one member without inflating it, under ``name``."""
    fresh = copy.copy(item)
    fresh.filename = fresh.orig_filename = name
    fresh.flag_bits &= ~0x08  # the sizes stand in the header, not behind the data
    fresh.extra, fresh.comment, fresh.date_time = b"", b"", _TIME
    assert old.fp is not None
    assert new.fp is not None
    fresh.header_offset = new.fp.tell()
    new.fp.write(fresh.FileHeader(zip64=None))
    for chunk in _compressed(old.fp, item):
        new.fp.write(chunk)
    new.start_dir = new.fp.tell()
    new.filelist.append(fresh)
    new.NameToInfo[name] = fresh
    new._didModify = True  # type: ignore[attr-defined]


def _compressed(stream: IO[bytes], item: zipfile.ZipInfo) -> Iterator[bytes]:
    stream.seek(item.header_offset)
    names, extra = _LOCAL.unpack(stream.read(_LOCAL.size))
    stream.seek(names + extra, 1)
    yield from chunks_of(stream, item.compress_size)  # type: ignore[arg-type]
