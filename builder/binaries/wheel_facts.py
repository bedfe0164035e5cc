"""One pass over a wheel: every member is read and inflated once, hashed, and looked into.

ELF files go to a temporary file beyond some megabytes, so that memory stays small whatever the
wheel's size. Whatever is wrong with a wheel is a fact too (``Damage``), never an exception.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import threading
import zipfile
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.parser import HeaderParser
from pathlib import Path
from typing import BinaryIO, cast

from packaging.utils import canonicalize_name

from builder.binaries import archive, cubin, facts_cache
from builder.binaries.elf import MAGIC, read_elf
from builder.binaries.facts import Code, Damage, ElfFacts, WheelFacts
from builder.binaries.fatbin import MAGIC as FAT_MAGIC
from builder.binaries.fatbin import read_fatbin, summed
from builder.binaries.metered import Metered, UnreadableError
from builder.binaries.recorded import compare

METADATA = ("METADATA", "WHEEL", "RECORD")
CHUNK_BYTES = 1 << 20
IN_MEMORY_BYTES = 24 << 20  # larger ELF files are read from a temporary file
METADATA_LIMIT = 8 << 20
_FAT_MAGIC = FAT_MAGIC.to_bytes(4, "little")
# What zipfile raises on a damaged member.
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


def read_wheel(path: Path, sha256: str, *, scratch: Path | None = None,
               on_progress: Callable[[float], None] | None = None) -> WheelFacts:
    """Read a wheel whose bytes have the digest ``sha256``.

    ``scratch`` is a folder for temporary files (default: the system's); ``on_progress`` is told
    each member's packed bytes, in all the wheel's size.
    """
    name, version = _named(path.name)
    try:
        with archive.open_archive(path) as opened:
            reading = _Reading(opened, scratch)
            for item in opened.infolist():
                reading.member(item)
                if on_progress is not None:
                    on_progress(item.compress_size)
            return reading.facts(path.name, sha256, name, version)
    except archive.UnsafeError as error:
        return WheelFacts(path.name, sha256, name, version, damage=(error.damage,))


def _named(file: str) -> tuple[str, str]:
    """Return name and version as the file's name has them; METADATA may be missing."""
    parts = file.removesuffix(".whl").split("-")
    return canonicalize_name(parts[0]), parts[1] if len(parts) > 1 else ""


class _Reading:
    """What was found so far in one wheel."""

    def __init__(self, opened: zipfile.ZipFile, scratch: Path | None) -> None:
        self._opened, self._folder = opened, str(scratch) if scratch else None
        self._elves: list[ElfFacts] = []
        self._cubins: list[tuple[str, Code]] = []
        self._digests: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._damage = list(archive.misplaced(opened))

    def member(self, item: zipfile.ZipInfo) -> None:
        """Read one member."""
        if item.filename.endswith("/"):  # item.is_dir() fails for a name that is empty
            return
        try:
            if item.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise zipfile.BadZipFile("packed in a way that installers do not know")
            with self._opened.open(item) as stream:
                self._read(item, cast(BinaryIO, stream))
        except BROKEN as error:
            self._damage.append(Damage("member-unreadable", item.filename, str(error)))

    def _read(self, item: zipfile.ZipInfo, stream: BinaryIO) -> None:
        first = stream.read(CHUNK_BYTES)
        state = hashlib.sha256(first)
        wanted = _is_metadata(item) or first.startswith((MAGIC, _FAT_MAGIC))
        if len(first) < CHUNK_BYTES:  # most are small: they need no file
            self._hashed(item, state.digest())
            if wanted:
                self._look_into(item, io.BytesIO(first))
            return
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=self._folder) as kept:
            chunk = first
            while chunk:
                if wanted:
                    kept.write(chunk)
                if chunk := stream.read(CHUNK_BYTES):
                    state.update(chunk)
            self._hashed(item, state.digest())
            if wanted:
                self._look_into(item, cast(BinaryIO, kept))

    def _hashed(self, item: zipfile.ZipInfo, digest: bytes) -> None:
        self._digests[item.filename] = urlsafe_b64encode(digest).decode().rstrip("=")

    def _look_into(self, item: zipfile.ZipInfo, kept: BinaryIO) -> None:
        """Read a text of .dist-info, an ELF file, a cubin or a loose fat binary."""
        path = archive.installed_path(item.filename)
        kept.seek(0)
        if _is_metadata(item):
            self._texts[path.rpartition("/")[2]] = kept.read().decode("utf-8", "replace")
            return
        head = kept.read(cubin.HEADER_SIZE)
        try:
            if head.startswith(_FAT_MAGIC):
                self._fat_binary(path, Metered(kept))
            elif cubin.machine(head) == cubin.MACHINE:
                kept.seek(0)
                found = cubin.read_cubin(kept.read())
                self._cubins.extend((path, code) for code in summed([found]))
            else:
                elf = read_elf(kept, path)
                self._elves.append(elf)
                self._damage.extend(elf.damage)
        except UnreadableError as error:
            self._damage.append(Damage("elf-damaged", path, str(error)))

    def _fat_binary(self, path: str, data: Metered) -> None:
        found = read_fatbin(data, 0, data.size)
        self._cubins.extend((path, code) for code in found.code)
        if found.damage:
            self._damage.append(Damage("fatbin-damaged", path, found.damage))

    def facts(self, file: str, sha256: str, name: str, version: str) -> WheelFacts:
        """Return all that was found; METADATA's name and version win over the file's."""
        metadata = HeaderParser().parsestr(self._texts.get("METADATA", ""))
        tags = HeaderParser().parsestr(self._texts.get("WHEEL", "")).get_all("Tag", [])
        return WheelFacts(
            file, sha256, canonicalize_name(metadata["Name"] or name),
            metadata["Version"] or version, elves=tuple(self._elves), cubins=tuple(self._cubins),
            members=tuple((archive.installed_path(member), digest)
                          for member, digest in self._digests.items()),
            metadata=self._texts.get("METADATA", ""), tags=tuple(map(str, tags)),
            damage=(*self._damage, *self._missing(), *self._recorded()),
            unpacked=sum(item.file_size for item in self._opened.infolist()))

    def _missing(self) -> Iterator[Damage]:
        for needed in METADATA:
            if needed not in self._texts:
                yield Damage("metadata-missing", needed, "is missing, or too large to be read")

    def _recorded(self) -> Iterator[Damage]:
        if "RECORD" in self._texts:
            there = {item.filename for item in self._opened.infolist()}
            yield from compare(self._texts["RECORD"], self._digests, there)


def _is_metadata(item: zipfile.ZipInfo) -> bool:
    folder, _, name = item.filename.partition("/")
    return (folder.endswith(".dist-info") and name in METADATA
            and item.file_size <= METADATA_LIMIT)


def read_wheels(wheels: Sequence[tuple[Path, str]], cache_root: Path,
                on_progress: Callable[[float], None] | None = None) -> tuple[WheelFacts, ...]:
    """Return the facts of wheels (path and sha256), in their order, from the cache where it can.

    The others are read side by side, the largest first. ``on_progress`` is told packed bytes.
    """
    cached = [facts_cache.load(cache_root, digest, path.name) for path, digest in wheels]
    missing = [wheel for wheel, facts in zip(wheels, cached, strict=True) if facts is None]
    made = dict(zip(missing, _read_all(missing, cache_root, on_progress), strict=True))
    return tuple(facts or made[wheel] for wheel, facts in zip(wheels, cached, strict=True))


def _read_all(wheels: Sequence[tuple[Path, str]], cache_root: Path,
              on_progress: Callable[[float], None] | None) -> Iterator[WheelFacts]:
    stop, lock = threading.Event(), threading.Lock()

    def advance(amount: float) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        if on_progress is not None:
            with lock:
                on_progress(amount)

    def read(wheel: tuple[Path, str]) -> WheelFacts:
        facts = read_wheel(*wheel, scratch=scratch, on_progress=advance)
        facts_cache.save(cache_root, facts)
        return facts

    if not wheels:
        return
    scratch = facts_cache.scratch(cache_root)
    largest_first = sorted(set(wheels), key=lambda wheel: -wheel[0].stat().st_size)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            futures = {wheel: pool.submit(read, wheel) for wheel in largest_first}
            yield from (futures[wheel].result() for wheel in wheels)
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
