"""Small ELF files, fat binaries and wheels, made to measure for the tests of the gate's readers."""

from __future__ import annotations

import base64
import hashlib
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

AARCH64, X86_64, CUDA = 183, 62, 190
GLOBAL, WEAK, LOCAL = 1, 2, 0
NULL, PROGBITS, SYMTAB, STRTAB, DYNAMIC, NOTE, NOBITS, DYNSYM = 0, 1, 2, 3, 6, 7, 8, 11
VERDEF, VERNEED, VERSYM = 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
TAGS = {"needed": 1, "soname": 14, "rpath": 15, "runpath": 29}
HEADER_SIZE, SEGMENT_SIZE, SECTION_SIZE = 64, 56, 64


class Strings:
    """A string table that grows: ``at`` gives a string's offset."""

    def __init__(self) -> None:
        self.data = b"\0"

    def at(self, text: str) -> int:
        place = len(self.data)
        self.data += text.encode() + b"\0"
        return place


def fatbin(*entries: tuple[int, int, int], payload: bytes = b"\x28\xb5\x2f\xfd" * 4) -> bytes:
    """Return one region with an entry per (kind, architecture, flags)."""
    body = b"".join(struct.pack("<HHIQ12xI8xQ16x", kind, 0x101, 64, len(payload), arch, flags)
                    + payload for kind, arch, flags in entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def elf_file(*, machine: int = AARCH64, kind: int = 3, needed: Sequence[str] = (),
             soname: str = "", rpath: str = "", runpath: str = "", interpreter: str = "",
             defined: Sequence[str] = (), undefined: Sequence[str] = (),
             weak: Sequence[str] = (), sections: Mapping[str, bytes] | None = None) -> bytes:
    """Return a library; ``name@LIB:VERSION`` asks LIB for a version, ``name@VERSION`` offers it."""
    strings, symbols = Strings(), [bytes(24)]
    indices, versions = [0], dict[str, int]()
    for names, section in ((defined, 7), (undefined, 0)):
        for text in names:
            name, _, version = text.partition("@")
            binding = WEAK if name in weak else GLOBAL
            symbols.append(struct.pack("<IBBHQQ", strings.at(name), binding << 4, 0, section, 0, 0))
            indices.append(versions.setdefault(version, len(versions) + 2) if version else 1)
    asked = {text: number for text, number in versions.items() if ":" in text}
    offered = {text: number for text, number in versions.items() if ":" not in text}
    tags = [(TAGS["needed"], strings.at(name)) for name in needed]
    tags += [(TAGS[tag], strings.at(text)) for tag, text in
             (("soname", soname), ("rpath", rpath), ("runpath", runpath)) if text]
    verneed, verdef = _verneed(asked, strings), _verdef(offered, strings)
    dynamic = [*tags, (5, HEADER_SIZE), (0, 0)]  # DT_STRTAB: the first section's place
    parts: list[tuple[str, int, bytes, int, int]] = [  # name, type, data, link, info
        (".dynstr", STRTAB, b"", 0, 0),
        (".dynsym", DYNSYM, b"".join(symbols), 1, 1),
        (".gnu.version", VERSYM, struct.pack(f"<{len(indices)}H", *indices), 2, 0),
        (".gnu.version_r", VERNEED, verneed, 1, len({text.split(":")[0] for text in asked})),
        (".gnu.version_d", VERDEF, verdef, 1, len(offered) + 1 if offered else 0),
        (".dynamic", DYNAMIC, b"".join(struct.pack("<QQ", *tag) for tag in dynamic), 1, 0),
        (".interp", PROGBITS, interpreter.encode() + b"\0", 0, 0),
        *((name, PROGBITS, data, 0, 0) for name, data in (sections or {}).items()),
    ]
    parts[0] = (".dynstr", STRTAB, strings.data, 0, 0)
    return _laid_out(machine, kind, parts, has_interpreter=bool(interpreter))


def _verneed(asked: Mapping[str, int], strings: Strings) -> bytes:
    libraries: dict[str, list[tuple[str, int]]] = {}
    for text, number in asked.items():
        library, _, version = text.partition(":")
        libraries.setdefault(library, []).append((version, number))
    data = b""
    for left, (library, wanted) in zip(range(len(libraries))[::-1], libraries.items(), strict=True):
        length = 16 + 16 * len(wanted)
        data += struct.pack("<HHIII", 1, len(wanted), strings.at(library), 16, length * bool(left))
        for rest, (version, number) in zip(range(len(wanted))[::-1], wanted, strict=True):
            data += struct.pack("<IHHII", 0, 0, number, strings.at(version), 16 * bool(rest))
    return data


def _verdef(offered: Mapping[str, int], strings: Strings) -> bytes:
    rows = [("base", 1, 1), *((name, number, 0) for name, number in offered.items())]
    return b"".join(
        struct.pack("<HHHHIII", 1, flags, number, 1, 0, 20, 28 * (place + 1 < len(rows)))
        + struct.pack("<II", strings.at(name), 0)
        for place, (name, number, flags) in enumerate(rows)) if offered else b""


def _laid_out(machine: int, kind: int, parts: list[tuple[str, int, bytes, int, int]], *,
              has_interpreter: bool) -> bytes:
    names, body, headers = Strings(), b"", [bytes(SECTION_SIZE)]
    parts = [*parts, (".shstrtab", STRTAB, b"", 0, 0)]
    for name, form, data, link, info in parts:
        at = names.at(name)
        content = names.data if name == ".shstrtab" else data
        place = HEADER_SIZE + len(body)
        headers.append(struct.pack("<IIQQQQIIQQ", at, form, 0, place, place, len(content), link,
                                   info, 8, {DYNSYM: 24, DYNAMIC: 16}.get(form, 0)))
        body += content + bytes(-len(content) % 8)
    places = {part[0]: struct.unpack_from("<QQ", header, 24)
              for part, header in zip(parts, headers[1:], strict=True)}
    wanted = [(1, 0, HEADER_SIZE + len(body)), (2, *places[".dynamic"])]
    wanted += [(3, *places[".interp"])] if has_interpreter else []
    segments = b"".join(struct.pack("<IIQQQQQQ", form, 4, at, at, at, size, size, 8)
                        for form, at, size in wanted)
    start = HEADER_SIZE + len(body)
    return struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, kind, machine, 1, 0, start,
        start + len(segments), 0, HEADER_SIZE, SEGMENT_SIZE, len(wanted), SECTION_SIZE,
        len(headers), len(headers) - 1) + body + segments + b"".join(headers)


def record_of(members: Mapping[str, bytes], name: str) -> bytes:
    """Return RECORD's text for ``members``."""
    lines = [f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()}"
             f",{len(data)}".replace("=,", ",") for path, data in members.items()]
    return "\n".join([*lines, f"{name},,", ""]).encode()


def make_wheel(folder: Path, members: Mapping[str, bytes], *, name: str = "thing",
               version: str = "1.0", compression: int = zipfile.ZIP_DEFLATED,
               modes: Mapping[str, int] | None = None, record: bytes | None = None,
               requires: Sequence[str] = ()) -> Path:
    """Write a wheel with ``members``, its metadata and an honest RECORD, or the one given."""
    info = f"{name}-{version}.dist-info"
    whole = {**members,
             f"{info}/METADATA": "".join((
                 f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
                 *(f"Requires-Dist: {text}\n" for text in requires))).encode(),
             f"{info}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n"}
    listed = record_of(whole, f"{info}/RECORD") if record is None else record
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for member, data in {**whole, f"{info}/RECORD": listed}.items():
            item = zipfile.ZipInfo(member)
            item.external_attr = (modes or {}).get(member, 0o100644) << 16
            item.compress_type = compression
            archive.writestr(item, data)
    return path
