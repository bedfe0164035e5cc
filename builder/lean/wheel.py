"""A trimmed wheel: the published one without what its GPU never runs and no run needs.

It is a wheel of its own: its local version says so (``2.11.0+lean.sm121``), its RECORD lists what
it holds, and ``sparkyard-lean.json`` in its metadata lists what was taken and why. Members that do
not change are copied still compressed, trimmed ones are stored plain, so that the bytes do not
depend on the machine's zlib.
"""

from __future__ import annotations

import shutil
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from packaging.version import Version

from builder.binaries.elf import MAGIC
from builder.layers.distinfo import Row, hash_text, render
from builder.lean.library import Trimmed, trim_library
from builder.lean.rules import removal, untouched
from builder.lean.segments import Written
from builder.locking.lock import LockedWheel
from builder.patches.apply import Blob
from builder.patches.revision import Revision
from builder.patches.wheel import copy_member, info_of, record_rows, store_file, store_member
from builder.removal import remove_file

NOTE = "sparkyard-lean.json"
CHUNK_BYTES = 1 << 20
LEAST_SAVED = 200_000  # bytes; for less, a wheel keeps its published name and hash
GPU_CODE, DEBUG = "GPU code of other architectures", "debug symbols"


@dataclass(frozen=True)
class Library:
    """A trimmed library: where it lies until the wheel is written, and its size and hash."""

    path: Path
    written: Written


@dataclass
class Savings:
    """What was taken from one wheel: bytes by rule, and the files with their reasons."""

    before: int = 0
    after: int = 0
    by_rule: Counter[str] = field(default_factory=Counter)
    files: dict[str, dict[str, object]] = field(default_factory=dict)

    @property
    def saved(self) -> int:
        """Return the unpacked bytes that went."""
        return self.before - self.after


def lean_version(version: str, gpu: str) -> str:
    """Return the local version of a trimmed wheel: ``0.20.2+lean.sm121``."""
    parsed = Version(version)
    local = ".".join([*([parsed.local] if parsed.local else []), "lean", gpu.replace("_", "")])
    return str(Version(f"{parsed.public}+{local}"))


def trim_wheel(wheel: LockedWheel, source: Path, target: Path, gpu: str, scratch: Path
               ) -> tuple[Revision, Savings] | None:
    """Write the trimmed form of a wheel to ``target``; None where too little would be saved."""
    savings = Savings()
    with zipfile.ZipFile(source) as old:
        trimmed = _trim_members(old, gpu, scratch, savings)
        if savings.saved < LEAST_SAVED:
            return None
        note = {"gpu": gpu, "wheel": {"file": wheel.file, "sha256": wheel.sha256},
                "taken": savings.files}
        revision = Revision(wheel, lean_version(wheel.version, gpu), {}, note)
        _write(old, source.name, target, revision, trimmed, savings)
    return revision, savings


def _trim_members(old: zipfile.ZipFile, gpu: str, scratch: Path, savings: Savings
                  ) -> dict[str, Library]:
    """Decide on every member; return the trimmed libraries by their names in the wheel."""
    trimmed: dict[str, Library] = {}
    for item in old.infolist():
        name = item.filename
        savings.before += item.file_size
        savings.after += item.file_size
        gone = None if _is_metadata(name) else removal(name, gpu)
        if gone:
            savings.after -= item.file_size
            savings.by_rule[gone.rule] += item.file_size
            savings.files[name] = {"rule": gone.rule, "reason": gone.reason,
                                   "bytes": item.file_size}
        elif _is_library(old, item) and not untouched(name):
            path = scratch / f"{len(trimmed)}.so"
            result = _trim_one(old, item, path, gpu)
            if result.written:
                trimmed[name] = Library(path, result.written)
                _account(name, result, savings)
    return trimmed


def _is_metadata(name: str) -> bool:
    return name.partition("/")[0].endswith(".dist-info")


def _is_library(old: zipfile.ZipFile, item: zipfile.ZipInfo) -> bool:
    if item.is_dir() or not (item.filename.endswith(".so") or ".so." in item.filename):
        return False
    with old.open(item) as stream:
        return stream.read(4) == MAGIC


def _trim_one(old: zipfile.ZipFile, item: zipfile.ZipInfo, target: Path, gpu: str) -> Trimmed:
    whole = target.with_suffix(".whole")
    try:
        with old.open(item) as stream, whole.open("wb") as handle:
            shutil.copyfileobj(stream, handle, CHUNK_BYTES)
        return trim_library(whole, target, gpu)
    finally:
        remove_file(whole, whole.parent)


def _account(name: str, result: Trimmed, savings: Savings) -> None:
    saved = result.before - result.after
    savings.after -= saved
    debug = min(result.debug, saved)
    savings.by_rule += Counter({DEBUG: debug, GPU_CODE: saved - debug})
    savings.files[name] = {"rule": GPU_CODE if result.dropped else DEBUG, **{
        key: value for key, value in asdict(result).items() if value and key != "written"}}


def _write(old: zipfile.ZipFile, name: str, target: Path, revision: Revision,
           trimmed: dict[str, Library], savings: Savings) -> None:
    info = info_of(old, name)
    record, metadata = f"{info}/RECORD", f"{info}/METADATA"
    fresh = {revision.renamed(metadata): Blob(revision.metadata(old.read(metadata))),
             revision.renamed(f"{info}/{NOTE}"): Blob(revision.note)}
    gone = frozenset(path for path in savings.files if path not in trimmed)
    with zipfile.ZipFile(target, "w", allowZip64=True) as new:
        for item in old.infolist():
            renamed = revision.renamed(item.filename)
            if item.filename in gone or item.filename == record or renamed in fresh:
                continue
            if item.filename in trimmed:
                store_file(new, item, renamed, trimmed[item.filename].path)
            else:
                copy_member(old, item, new, renamed)
        for path, blob in sorted(fresh.items()):
            store_member(new, path, blob)
        rows = revision.rows(record_rows(old.read(record), name), {
            path: blob.data for path, blob in fresh.items()}, gone)
        signed = _signed(rows, {revision.renamed(path): library.written
                                for path, library in trimmed.items()})
        folder = revision.renamed(record).partition("/")[0]
        store_member(new, f"{folder}/RECORD", Blob(render(signed, folder)))


def _signed(rows: Sequence[Row], trimmed: Mapping[str, Written]) -> list[Row]:
    """Return RECORD's rows with the hashes and sizes of the trimmed libraries."""
    return [(name, hash_text(trimmed[name].sha256), str(trimmed[name].size))
            if name in trimmed else (name, digest, size) for name, digest, size in rows]
