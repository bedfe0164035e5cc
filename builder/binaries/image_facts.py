"""The file system of an image, streamed as a tar: the base in it, and the distributions.

The stream is what ``docker export`` writes, of a base or of any image. Files below site-packages
are hashed; only ELF files, GPU code, the metadata of distributions and Debian's package database
are looked into. Memory stays small whatever the image's size.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from packaging.version import Version

from builder.binaries.archive import MAX_PATH
from builder.binaries.facts import BaseFacts, ElfFacts, WheelFacts
from builder.binaries.installed import ALL_TEXT, SITE, Sites, wheels_of
from builder.binaries.wheel_facts import read_content
from builder.errors import EngineError
from builder.limits import TooMuchError
from builder.tarball import TAR_FAULTS, BoundedInfo

# The folders of the loader (ld.so.conf of Debian, Ubuntu and CUDA's images), and none below them.
_LIBRARY = re.compile(r"^(usr/(local/)?)?lib(64)?/([\w-]+-linux-gnu[\w]*/)?[^/]+\.so(\.[\w.]+)?$|"
                      r"^usr/local/cuda[^/]*/(targets/[^/]+/lib|lib64)/[^/]+\.so(\.[\w.]+)?$")
# Also a Python that uv or conda installed: the program defines the symbols of Python's C API.
_PYTHON = re.compile(r"^(?:.*/)?bin/python3\.\d+$")
BUFFER_BYTES = 64 << 10
MAX_FILES = 1_000_000  # of an image; cpu has 71,000
MAX_NAMES = 128 << 20  # bytes of all paths; those of cpu have 6 MB
MAX_SYMBOLS = 2_000_000  # in all libraries; those of tf5's wheels have 270,000
# The tools that a closure may need to compile at run time; each is a file or a link of a base.
TOOLS = {
    "gcc": r"^usr/bin/gcc$", "ld": r"^usr/bin/ld$", "g++": r"^usr/bin/g\+\+$",
    "ldconfig": r"^(usr/)?sbin/ldconfig$", "libc headers": r"^usr/include/stdio\.h$",
    "Python.h": r"^usr/(local/)?include/python3\.\d+/Python\.h$",
    "nvcc": r"^usr/local/cuda[^/]*/bin/nvcc$", "ptxas": r"^usr/local/cuda[^/]*/bin/ptxas$",
    "cccl": r"^usr/local/cuda[^/]*/(targets/[^/]+/)?include/(cccl/)?cuda/std/version$",
}


@dataclass(frozen=True)
class ImageFacts:
    """What a file system holds: its base, and each distribution as if it were still a wheel.

    ``python`` is the version that has the distributions, where their path says so.
    """

    base: BaseFacts
    wheels: tuple[WheelFacts, ...]
    python: str = ""


@dataclass
class _Found:
    """What one pass over the tar has read."""

    libraries: list[ElfFacts] = field(default_factory=list)
    sites: Sites = field(default_factory=Sites)
    texts: dict[str, str] = field(default_factory=dict)
    tools: set[str] = field(default_factory=set)
    text_left: int = ALL_TEXT
    files: int = 0
    names: int = 0
    symbols: int = 0

    def count(self, name: str) -> None:
        """Count a member; raises TooMuchError past the limits of a whole image."""
        self.files += 1
        self.names += len(name)
        if self.files > MAX_FILES:
            raise TooMuchError(f"more than {MAX_FILES:,} files")
        if self.names > MAX_NAMES:
            raise TooMuchError(f"more than {MAX_NAMES >> 20} MB of file names")

    def count_symbols(self, facts: ElfFacts | None) -> None:
        """Count a library's symbols; raises TooMuchError past the limit."""
        self.symbols += len(facts.defined) + len(facts.undefined) if facts else 0
        if self.symbols > MAX_SYMBOLS:
            raise TooMuchError(f"more than {MAX_SYMBOLS:,} symbols in its libraries")


def read_image(stream: BinaryIO, name: str, digest: str, platform: str,
               scratch: Path | None = None) -> ImageFacts:
    """Read a tar of a whole file system; raises EngineError where it is damaged or cut off."""
    found = _Found()
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=BUFFER_BYTES,
                          tarinfo=BoundedInfo) as archive:
            while (member := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # or it keeps every one
                found.count(member.name)
                _member(archive, member, found, str(scratch) if scratch else None)
    except TooMuchError as error:
        raise EngineError(f"this image is not judged: it has {error}", where=name,
                          next_step="judge its wheels instead: --wheels FILE…") from error
    except TAR_FAULTS as error:
        raise EngineError(f"the engine's copy of this image cannot be read: {error}", where=name,
                          next_step="run the same command again; if it fails again, pull or load "
                          "the image again") from error
    return ImageFacts(_base(found, name, digest, platform), wheels_of(found.sites),
                      found.sites.python())


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo, found: _Found,
            scratch: str | None) -> None:
    path = member.name.removeprefix("./").lstrip("/")
    if len(path) > MAX_PATH:
        return
    found.tools.update(tool for tool, mark in TOOLS.items() if re.search(mark, path))
    if not member.isdir():
        found.sites.there.add(path)
    if member.islnk():
        found.sites.links[path] = member.linkname.removeprefix("./").lstrip("/")
    data = archive.extractfile(member) if member.isfile() else None
    if data is None:
        return
    if SITE.match(path):
        found.sites.read(path, data, scratch)
        found.count_symbols(found.sites.files[path].elf)
    elif path == "var/lib/dpkg/status" or re.match(r"var/lib/dpkg/info/[^/]+\.list$", path):
        text = data.read(max(found.text_left, 0)).decode("utf-8", "replace")
        found.texts[path] = text
        found.text_left -= len(text)
    elif _LIBRARY.search(path) or _PYTHON.match(path):
        facts = read_content(data, f"/{path}", scratch).elf
        found.count_symbols(facts)
        found.libraries.extend([facts] if facts else [])


def _base(found: _Found, name: str, digest: str, platform: str) -> BaseFacts:
    packages = dict(_packages(found.texts.get("var/lib/dpkg/status", "")))
    libraries = tuple(sorted(found.libraries, key=lambda facts: facts.path))
    paths = {facts.path for facts in libraries}
    glibc = re.match(r"[\d:]*?(2\.\d+)", packages.get("libc6", ""))
    pythons = [path.rpartition("python")[2] for path in paths if "/bin/python3" in path]
    return BaseFacts(
        name, digest, platform, max(pythons, key=Version, default=""), glibc[1] if glibc else "",
        libraries=libraries, packages=tuple(sorted(packages.items())),
        owners=tuple(sorted(_owners(found.texts, paths))), tools=tuple(sorted(found.tools)))


def _packages(status: str) -> Iterable[tuple[str, str]]:
    for paragraph in status.split("\n\n"):
        fields = HeaderParser().parsestr(paragraph)
        if fields["Package"] and "installed" in (fields["Status"] or "installed").split():
            yield fields["Package"], fields["Version"] or ""


def _owners(texts: Mapping[str, str], paths: set[str]) -> Iterable[tuple[str, str]]:
    """Yield each library and its Debian package; /lib is a link to /usr/lib since Debian 12."""
    for file, text in texts.items():
        if file.endswith(".list"):
            package = PurePosixPath(file).name.removesuffix(".list").partition(":")[0]
            for line in text.splitlines():
                for path in (line, f"/usr{line}"):
                    if path in paths:
                        yield path, package
