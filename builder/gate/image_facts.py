"""A file system, streamed as a tar, into what the gate judges: its base, and the wheels in it.

The stream is what ``docker export`` gives, of a base, of an image of ours or of anybody's. Only ELF
files, the metadata of distributions and Debian's package database are looked into; memory stays
small whatever the image's size.
"""

from __future__ import annotations

import csv
import re
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from packaging.utils import canonicalize_name

from builder.gate.elf import MAGIC, read_elf
from builder.gate.facts import BaseFacts, Damage, ElfFacts, WheelFacts
from builder.gate.metered import UnreadableError

IN_MEMORY_BYTES = 24 << 20
TEXT_LIMIT = 32 << 20
# Debian's site-packages is called dist-packages; what lies there is the base's own.
_SITE = re.compile(r"^(.*/(?:site|dist)-packages)/(.+)$")
# The folders of the loader (ld.so.conf of Debian, Ubuntu and CUDA's images), and none below them.
_LIBRARY = re.compile(r"^(usr/(local/)?)?lib(64)?/([\w-]+-linux-gnu[\w]*/)?[^/]+\.so(\.[\w.]+)?$|"
                      r"^usr/local/cuda[^/]*/(targets/[^/]+/lib|lib64)/[^/]+\.so(\.[\w.]+)?$")
_PYTHON = re.compile(r"^usr/(?:local/)?bin/python3\.\d+$")
_INFO = re.compile(r"^[^/]+\.dist-info/(METADATA|WHEEL|RECORD)$")
# What a closure may compile with at run time; each is a file or a link of a base.
TOOLS = {
    "gcc": r"^usr/bin/gcc$", "ld": r"^usr/bin/ld$", "g++": r"^usr/bin/g\+\+$",
    "ldconfig": r"^(usr/)?sbin/ldconfig$", "libc headers": r"^usr/include/stdio\.h$",
    "Python.h": r"^usr/(local/)?include/python3\.\d+/Python\.h$",
    "nvcc": r"^usr/local/cuda[^/]*/bin/nvcc$", "ptxas": r"^usr/local/cuda[^/]*/bin/ptxas$",
    "cccl": r"^usr/local/cuda[^/]*/(targets/[^/]+/)?include/(cccl/)?cuda/std/version$",
}


@dataclass(frozen=True)
class ImageFacts:
    """What a file system holds: its base, and each distribution as if it were still a wheel."""

    base: BaseFacts
    wheels: tuple[WheelFacts, ...]


@dataclass
class _Found:
    """What one pass over the tar came across."""

    libraries: list[ElfFacts] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    site: dict[str, list[ElfFacts]] = field(default_factory=dict)
    infos: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    tools: set[str] = field(default_factory=set)
    damage: list[Damage] = field(default_factory=list)


def read_image(stream: BinaryIO, name: str, digest: str, platform: str,
               scratch: Path | None = None) -> ImageFacts:
    """Read a tar of a whole file system; raises tarfile.TarError where it is not one."""
    found = _Found()
    with tarfile.open(fileobj=stream, mode="r|*") as archive:
        for member in archive:
            _member(archive, member, found, str(scratch) if scratch else None)
    wheels = tuple(_wheel(site, info, texts, found)
                   for (site, info), texts in sorted(found.infos.items()))
    return ImageFacts(_base(found, name, digest, platform), wheels)


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo, found: _Found,
            scratch: str | None) -> None:
    path = member.name.removeprefix("./").lstrip("/")
    found.tools.update(tool for tool, mark in TOOLS.items() if re.search(mark, path))
    if member.issym() or member.islnk():
        found.links[path] = member.linkname
    if not member.isfile():
        return
    inside = _SITE.match(path)
    if inside and _INFO.match(inside[2]):
        info, _, file = inside[2].partition("/")
        found.infos.setdefault((inside[1], info), {})[file] = _text(archive, member)
    elif path == "var/lib/dpkg/status" or re.match(r"var/lib/dpkg/info/[^/]+\.list$", path):
        found.texts[path] = _text(archive, member)
    elif inside or _LIBRARY.search(path) or _PYTHON.match(path):
        _elf(archive, member, path, found, scratch)


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    data = archive.extractfile(member)
    return data.read(TEXT_LIMIT).decode("utf-8", "replace") if data else ""


def _elf(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, found: _Found,
         scratch: str | None) -> None:
    data = archive.extractfile(member)
    if data is None or (head := data.read(4)) != MAGIC:
        return
    inside = _SITE.match(path)
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=scratch) as kept:
        kept.write(head)
        while chunk := data.read(1 << 20):
            kept.write(chunk)
        try:
            facts = read_elf(cast(BinaryIO, kept), inside[2] if inside else f"/{path}")
        except UnreadableError as error:
            found.damage.append(Damage("elf-damaged", path, str(error)))
            return
    if inside:
        found.site.setdefault(inside[1], []).append(facts)
    else:
        found.libraries.append(facts)


def _base(found: _Found, name: str, digest: str, platform: str) -> BaseFacts:
    packages = dict(_packages(found.texts.get("var/lib/dpkg/status", "")))
    libraries = tuple(sorted(found.libraries, key=lambda facts: facts.path))
    paths = {facts.path for facts in libraries}
    glibc = re.match(r"[\d:]*?(2\.\d+)", packages.get("libc6", ""))
    pythons = sorted(path.rpartition("python")[2] for path in paths if "/bin/python3" in path)
    return BaseFacts(
        name, digest, platform, pythons[-1] if pythons else "", glibc[1] if glibc else "",
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


def _wheel(site: str, info: str, texts: Mapping[str, str], found: _Found) -> WheelFacts:
    """Return a distribution of the image as a wheel: its ELF files are those of its RECORD."""
    metadata = HeaderParser().parsestr(texts.get("METADATA", ""))
    tags = HeaderParser().parsestr(texts.get("WHEEL", "")).get_all("Tag", [])
    rows = [row for row in csv.reader(texts.get("RECORD", "").splitlines()) if row]
    members = {row[0]: row[1].partition("=")[2] if len(row) > 1 else "" for row in rows}
    elves = tuple(facts for facts in found.site.get(site, ()) if facts.path in members)
    return WheelFacts(
        info, "", canonicalize_name(metadata["Name"] or info.partition("-")[0]),
        metadata["Version"] or "", elves=elves, members=tuple(sorted(members.items())),
        metadata=texts.get("METADATA", ""), tags=tuple(map(str, tags)))
