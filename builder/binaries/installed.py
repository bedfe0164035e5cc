"""The distributions of a finished image, described as if they were still wheels.

The archives are gone, but RECORD has the hashes of the files that each distribution installed.
Files that were changed or deleted since are found by it, as far as they are below site-packages.
"""

from __future__ import annotations

import csv
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from email.parser import HeaderParser
from typing import IO

from packaging.utils import canonicalize_name

from builder.binaries.facts import Damage, WheelFacts
from builder.binaries.wheel_facts import (
    Content,
    metadata_damage,
    read_content,
    valid_version,
)
from builder.locking.findings import FindingCode

ALL_TEXT = 128 << 20  # of the metadata of all distributions; 200 of them have 7 MB
# Debian's site-packages is called dist-packages.
SITE = re.compile(r"^(.*/(?:site|dist)-packages)/(.+)$")
_INFO = re.compile(r"^[^/]+\.dist-info/(METADATA|WHEEL|RECORD)$")
_VERSION = re.compile(r"/python(3\.\d+)/(?:site|dist)-packages$")


@dataclass
class Sites:
    """All files below site-packages of an image, by path without a leading slash.

    ``there`` are the paths of all other files and links of the image too, ``links`` maps hard links
    to the file that they are, ``infos`` (site, .dist-info) to the texts in it.
    """

    files: dict[str, Content] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)
    infos: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    text_left: int = ALL_TEXT

    def read(self, path: str, data: IO[bytes], scratch: str | None) -> None:
        """Read a file below site-packages."""
        inside = SITE.match(path)
        if inside is None:
            return
        site, name = inside[1], inside[2]
        is_metadata = _INFO.match(name) is not None and self.text_left > 0
        content = read_content(data, name, scratch, keep_text=is_metadata)
        if is_metadata and content.text is not None:
            info, _, file = name.partition("/")
            self.infos.setdefault((site, info), {})[file] = content.text
            self.text_left -= len(content.text)
        content.text = None  # of metadata it is kept above, of a .pth it is not needed
        self.files[path] = content

    def main(self) -> str:
        """Return the largest site-packages with distributions; empty where there is none."""
        sizes = dict.fromkeys(sorted(site for site, _ in self.infos), 0)
        for path, content in self.files.items():
            inside = SITE.match(path)
            if inside and inside[1] in sizes:
                sizes[inside[1]] += content.size
        return max(sizes, key=sizes.__getitem__, default="")

    def python(self) -> str:
        """Return the version of Python (``3.12``) whose distributions these are, if a path says."""
        found = _VERSION.search(self.main())
        return found[1] if found else ""


def wheels_of(sites: Sites) -> tuple[WheelFacts, ...]:
    """Return the distributions that the image's Python sees, each as a wheel.

    These are the ones in the largest site-packages and, for the system's Python, those of its other
    folders, unless a distribution of the same name hides them.
    """
    _follow_links(sites)
    main = sites.main()
    rows = {key: _rows(texts.get("RECORD", "")) for key, texts in sites.infos.items()}
    listed: dict[str, set[str]] = defaultdict(set)
    for (site, _), lines in rows.items():
        for name, digest in lines.items():
            listed[_place(site, name)].add(digest)
    seen = [(site, _wheel(sites, site, info, rows[site, info], listed))
            for site, info in sorted(sites.infos)
            if site == main or (site.startswith("usr/") and main.startswith("usr/"))]
    first = {wheel.name for site, wheel in seen if site == main}
    return tuple(wheel for site, wheel in seen if site == main or wheel.name not in first)


def _follow_links(sites: Sites) -> None:
    for path, target in sites.links.items():
        inside, content = SITE.match(path), sites.files.get(target)
        if inside and content:
            elf = replace(content.elf, path=inside[2]) if content.elf else None
            sites.files[path] = replace(content, elf=elf)


def _rows(record: str) -> dict[str, str]:
    """Return RECORD's files and their sha256; a hash of another kind is not judged."""
    try:
        rows = [row for row in csv.reader(record.splitlines()) if row]
    except csv.Error:
        return {}
    hashes = ((row[0], row[1].partition("=") if len(row) > 1 else ("", "", "")) for row in rows)
    return {name: digest.rstrip("=") if kind == "sha256" else ""
            for name, (kind, _, digest) in hashes}


def _place(site: str, name: str) -> str:
    return posixpath.normpath(posixpath.join("/", site, name)).lstrip("/")


def _wheel(sites: Sites, site: str, info: str, rows: Mapping[str, str],
           listed: Mapping[str, set[str]]) -> WheelFacts:
    texts = sites.infos[site, info]
    metadata = HeaderParser().parsestr(texts.get("METADATA", ""))
    tags = HeaderParser().parsestr(texts.get("WHEEL", "")).get_all("Tag", [])
    present = {name: content for name in rows if (content := sites.files.get(_place(site, name)))}
    return WheelFacts(
        info, "", canonicalize_name(str(metadata["Name"] or info.partition("-")[0])),
        valid_version(metadata), tags=tuple(map(str, tags)),
        elves=tuple(content.elf for content in present.values() if content.elf),
        cubins=tuple((name, code) for name, content in sorted(present.items())
                     for code in content.code),
        targets=tuple((name, content.targets) for name, content in sorted(present.items())
                      if content.targets),
        members=tuple(sorted(rows.items())), metadata=texts.get("METADATA", ""),
        damage=(*metadata_damage(metadata), *_damage(sites, site, rows, listed)),
        unpacked=sum(content.size for content in present.values()))


def _damage(sites: Sites, site: str, rows: Mapping[str, str], listed: Mapping[str, set[str]]
            ) -> Iterator[Damage]:
    for name, wanted in rows.items():
        place = _place(site, name)
        content = sites.files.get(place)
        if content is None:
            # Bytecode is made again when it is missing; what lies elsewhere may be behind a link.
            if (place not in sites.there and not name.endswith(".pyc")
                    and place.startswith(f"{site}/")):
                yield Damage(FindingCode.FILE_LOST, name, "is in RECORD, but missing")
            continue
        if content.startup:
            yield content.startup
        # Other bytes that another distribution lists for this path are a collision, not a change.
        if wanted and content.digest not in listed[place]:
            yield _changed(name, wanted, content)
        elif content.damage:
            yield content.damage


def _changed(name: str, wanted: str, content: Content) -> Damage:
    detail = f"RECORD has sha256={wanted}, the file has {content.digest}"
    if content.damage is None:
        return Damage(FindingCode.FILE_CHANGED, name, detail)
    return Damage(FindingCode.FILE_BROKEN, name,
                  f"{detail} and cannot be read: {content.damage.detail}")
