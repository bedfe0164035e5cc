"""One pass over a wheel: every member is unpacked once, hashed, and looked into.

Files that must be looked into are kept in a temporary file beyond some megabytes, so that memory
stays small whatever the wheel's size. What is wrong with a wheel is a fact too (``Damage``), never
an exception.
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
from dataclasses import dataclass, replace
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import IO, BinaryIO, cast

from packaging.utils import canonicalize_name
from packaging.version import Version

from builder.binaries import archive, cubin, facts_cache
from builder.binaries.compilers import Names, is_compiler
from builder.binaries.elf import MAGIC, read_elf
from builder.binaries.facts import Code, Damage, ElfFacts, WheelFacts
from builder.binaries.fatbin import MAGIC as FAT_MAGIC
from builder.binaries.fatbin import read_fatbin, summed
from builder.binaries.metered import Metered, UnreadableError
from builder.locking.findings import FindingCode

METADATA = ("METADATA", "WHEEL", "RECORD")
CHUNK_BYTES = 1 << 20
IN_MEMORY_BYTES = 24 << 20  # larger files that are looked into go to a temporary file
TEXT_LIMIT = 8 << 20  # of METADATA, WHEEL, RECORD and .pth files; the largest seen has 1.7 MB
CUBIN_LIMIT = 64 << 20  # far beyond any kernel; nothing behind it is read
MAX_SYMBOLS = 2_000_000  # in all libraries of one wheel; torch has 240,000
MAX_REQUIREMENTS = 5_000  # transformers has 257
STARTUP_MODULES = ("sitecustomize.py", "usercustomize.py", "sitecustomize/__init__.py",
                   "usercustomize/__init__.py")
LINE_SHOWN = 80
_FAT_MAGIC = FAT_MAGIC.to_bytes(4, "little")
# What zipfile raises on a damaged member.
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


@dataclass
class Content:
    """One file, read once: its sha256 as RECORD spells it, its size, and what is in it.

    ``text`` is kept where it was asked for; ``damage`` is what could not be read, ``startup`` that
    the file runs code whenever Python starts, ``targets`` the architectures that a compiler knows.
    """

    digest: str
    size: int
    elf: ElfFacts | None = None
    code: tuple[Code, ...] = ()
    text: str | None = None
    damage: Damage | None = None
    startup: Damage | None = None
    targets: tuple[str, ...] = ()


def read_content(data: IO[bytes], path: str, scratch: str | None, *, keep_text: bool = False
                 ) -> Content:
    """Hash a file, installed as ``path``, and look into one that is a library or GPU code.

    ``keep_text`` asks for its text too, if it is no longer than ``TEXT_LIMIT``.
    """
    first = data.read(CHUNK_BYTES)
    names = Names() if is_compiler(path) else None
    if names:
        names.feed(first)
    keep_text = keep_text or _may_start(path)
    wanted = keep_text or first.startswith((MAGIC, _FAT_MAGIC))
    state, size = hashlib.sha256(first), len(first)
    if len(first) < CHUNK_BYTES:  # most files are small and need no temporary one
        content = _content(state.digest(), size, io.BytesIO(first) if wanted else None, path,
                           keep_text=keep_text)
        return replace(content, targets=names.sorted()) if names else content
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=scratch) as kept:
        chunk = first
        while chunk:
            if wanted:
                kept.write(chunk)
            if chunk := data.read(CHUNK_BYTES):
                state.update(chunk)
                size += len(chunk)
                if names:
                    names.feed(chunk)
        content = _content(state.digest(), size, cast(BinaryIO, kept) if wanted else None, path,
                           keep_text=keep_text)
    return replace(content, targets=names.sorted()) if names else content


def _content(digest: bytes, size: int, kept: BinaryIO | None, path: str, *, keep_text: bool
             ) -> Content:
    content = Content(urlsafe_b64encode(digest).decode().rstrip("="), size)
    if kept is None:
        return content
    kept.seek(0)
    if keep_text:
        if size <= TEXT_LIMIT:
            content.text = kept.read().decode("utf-8", "replace")
        content.startup = _startup(path, content.text)
    else:
        _look_into(content, kept, path)
    return content


def _look_into(content: Content, kept: BinaryIO, path: str) -> None:
    """Read an ELF file, a cubin or a loose fat binary."""
    head = kept.read(cubin.HEADER_SIZE)
    kept.seek(0)
    try:
        if head.startswith(_FAT_MAGIC):
            data = Metered(kept)
            fat = read_fatbin(data, 0, data.size)
            content.code = fat.code
            if fat.damage:
                content.damage = Damage(FindingCode.FATBIN_DAMAGED, path, fat.damage)
        elif cubin.machine(head) == cubin.MACHINE:
            content.code = summed([cubin.read_cubin(kept.read(CUBIN_LIMIT))])
        else:
            content.elf = read_elf(kept, path)
            content.damage = next(iter(content.elf.damage), None)
    except UnreadableError as error:
        content.damage = Damage(FindingCode.ELF_DAMAGED, path, str(error))


def _may_start(path: str) -> bool:
    return path in STARTUP_MODULES or (path.endswith(".pth") and "/" not in path)


def _startup(path: str, text: str | None) -> Damage | None:
    """Return that a file runs code when Python starts: site.py executes a .pth's import lines."""
    if not _may_start(path):
        return None
    if text is None:
        return Damage(FindingCode.PTH_RUNS_CODE, path, "is too large to be checked")
    if path in STARTUP_MODULES:
        return Damage(FindingCode.PTH_RUNS_CODE, path, "is imported whenever Python starts")
    lines = text.removeprefix("\ufeff").splitlines()
    line = next((line for line in lines if line.startswith(("import ", "import\t"))), "")
    return Damage(FindingCode.PTH_RUNS_CODE, path, "runs this whenever Python starts: "
                  + line[:LINE_SHOWN] + (" …" if len(line) > LINE_SHOWN else "")) if line else None


def read_wheel(path: Path, sha256: str, *, scratch: Path | None = None,
               on_progress: Callable[[float], None] | None = None) -> WheelFacts:
    """Read a wheel whose bytes have the digest ``sha256``.

    ``scratch`` is a folder for temporary files (default: the system's); ``on_progress`` is called
    with each member's packed bytes, in all the wheel's size.
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
    """What was read so far in one wheel."""

    def __init__(self, opened: zipfile.ZipFile, scratch: Path | None) -> None:
        self._opened, self._folder = opened, str(scratch) if scratch else None
        self._elves: list[ElfFacts] = []
        self._symbols = 0
        self._cubins: list[tuple[str, Code]] = []
        self._targets: list[tuple[str, tuple[str, ...]]] = []
        self._digests: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._damage = list(archive.misplaced(opened))

    def member(self, item: zipfile.ZipInfo) -> None:
        """Read one member."""
        if item.filename.endswith("/"):  # item.is_dir() fails for a name that is empty
            return
        try:
            if item.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise zipfile.BadZipFile("it is packed in a way that installers do not support")
            with self._opened.open(item) as stream:
                self._read(item, stream)
        except BROKEN as error:
            self._damage.append(Damage(FindingCode.MEMBER_UNREADABLE, item.filename, str(error)))

    def _read(self, item: zipfile.ZipInfo, stream: IO[bytes]) -> None:
        path = archive.installed_path(item.filename)
        is_metadata = _is_metadata(item)
        content = read_content(stream, path, self._folder, keep_text=is_metadata)
        self._digests[item.filename] = content.digest
        if is_metadata and content.text is not None:
            self._texts[path.rpartition("/")[2]] = content.text
        self._cubins.extend((path, code) for code in content.code)
        if content.targets:
            self._targets.append((path, content.targets))
        self._damage.extend(damage for damage in (content.startup,) if damage)
        if content.elf is not None:
            self._library(content.elf)
        elif content.damage:
            self._damage.append(content.damage)

    def _library(self, elf: ElfFacts) -> None:
        self._symbols += len(elf.defined) + len(elf.undefined)
        if self._symbols > MAX_SYMBOLS:
            elf = replace(elf, defined=(), undefined=(), damage=(*elf.damage, Damage(
                FindingCode.ELF_DAMAGED, elf.path,
                f"the libraries of this wheel have more than {MAX_SYMBOLS} symbols")))
        self._elves.append(elf)
        self._damage.extend(elf.damage)

    def facts(self, file: str, sha256: str, name: str, version: str) -> WheelFacts:
        """Return all that was read; METADATA's name and version win over the file's."""
        metadata = HeaderParser().parsestr(self._texts.get("METADATA", ""))
        tags = HeaderParser().parsestr(self._texts.get("WHEEL", "")).get_all("Tag", [])
        damage = [*self._damage, *self._missing(), *metadata_damage(metadata), *self._recorded()]
        return WheelFacts(
            file, sha256, canonicalize_name(str(metadata["Name"] or name)),
            valid_version(metadata) or version, elves=tuple(self._elves),
            cubins=tuple(self._cubins),
            members=tuple((archive.installed_path(member), digest)
                          for member, digest in self._digests.items()),
            metadata=self._texts.get("METADATA", ""), tags=tuple(map(str, tags)),
            damage=tuple(damage), targets=tuple(self._targets),
            unpacked=sum(item.file_size for item in self._opened.infolist()))

    def _missing(self) -> Iterator[Damage]:
        for needed in METADATA:
            if needed not in self._texts:
                yield Damage(FindingCode.METADATA_MISSING, needed,
                             "is missing, or too large to be read")

    def _recorded(self) -> Iterator[Damage]:
        if "RECORD" in self._texts:
            present = {item.filename for item in self._opened.infolist()}
            yield from archive.compare_record(self._texts["RECORD"], self._digests, present)


def _is_metadata(item: zipfile.ZipInfo) -> bool:
    folder, _, name = item.filename.partition("/")
    return folder.endswith(".dist-info") and name in METADATA and item.file_size <= TEXT_LIMIT


def valid_version(metadata: Message) -> str:
    """Return METADATA's version, or nothing where it is not a version that can be compared."""
    text = str(metadata["Version"] or "")
    try:
        return text if text and Version(text) else ""
    except ValueError:  # InvalidVersion, or a number of more digits than Python parses
        return ""


def metadata_damage(metadata: Message) -> Iterator[Damage]:
    """Yield why METADATA cannot be used."""
    if metadata["Version"] and not valid_version(metadata):
        yield Damage(FindingCode.METADATA_DAMAGED, "METADATA",
                     f'"{str(metadata["Version"])[:LINE_SHOWN]}" is not a valid version')
    count = len(metadata.get_all("Requires-Dist", []))
    if count > MAX_REQUIREMENTS:
        yield Damage(FindingCode.METADATA_DAMAGED, "METADATA", f"it has {count} requirements")


def read_wheels(wheels: Sequence[tuple[Path, str]], cache_root: Path,
                on_progress: Callable[[float], None] | None = None) -> tuple[WheelFacts, ...]:
    """Return the facts of wheels (path and sha256), in their order, from the cache where it can.

    The others are read in parallel, the largest first. ``on_progress`` is called with packed bytes.
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
