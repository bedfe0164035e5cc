"""One ELF file, library or program: the facts that a loader uses.

pyelftools reads the structure; the symbol table is unpacked in bulk, because reading it object by
object took ten times as long (libtorch_cuda.so: 1.1 s against 0.1 s; LIEF: 2.3 s and 565 MB). All
reading goes through a ``Metered`` stream, so that a file with absurd headers ends in an error.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, BinaryIO, cast

from elftools.common.exceptions import ELFError, ELFParseError
from elftools.construct import ConstructError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection
from elftools.elf.segments import InterpSegment

from builder.binaries.facts import Damage, ElfFacts, Symbol
from builder.binaries.fatbin import SECTION, TO_LINK, FatBinary, read_fatbin
from builder.binaries.metered import Metered, UnreadableError
from builder.locking.findings import FindingCode

MAGIC = b"\x7fELF"
NVIDIA = "nvidia/"  # NVIDIA's own libraries, large and without stubs, are not searched for any
# What pyelftools raises on damaged files beside its own errors, found by fuzzing.
BROKEN = (UnreadableError, ELFError, ConstructError, struct.error, ValueError, LookupError,
          AttributeError, TypeError, AssertionError, OverflowError)
_SYMBOL = struct.Struct("<IBBHQQ")
_LOCAL, _WEAK = 0, 2  # bindings; the others (global, unique) bind alike
_HIDDEN_VISIBILITY = (1, 2)  # internal, hidden
_VERSION_MASK = 0x7FFF  # the top bit marks a version that is not the default one
_BASE, _WEAK_VERSION = 0x1, 0x2  # flags of versions
_NAMES_PER_STRING_TABLE = 4  # names may share their ends, but not without limit
_SPARE_NAMES = 1 << 20
_ORDER = itemgetter(1, 2, 0)  # version, weak, name: long runs of equal ones
_MAX_ENTRIES = 100_000  # sections, tags, versions: honest files have hundreds
MAX_SYMBOLS = 1_000_000  # libtriton has 138,000, the most seen
_SYMBOL_BYTES = 24
_MAX_NAMES = 96 << 20  # libtriton has 14 MB of names


def read_elf(data: bytes | memoryview | BinaryIO, path: str) -> ElfFacts:
    """Read one ELF file, called ``path`` in the facts; raise UnreadableError if it is damaged.

    Damage inside a readable file (a fat binary that is cut short) is a part of the facts.
    """
    stream = io.BytesIO(data) if isinstance(data, bytes | memoryview) else data
    metered = Metered(stream)
    metered.seek(0)
    if metered.read(4) != MAGIC:
        raise UnreadableError("not an ELF file")
    try:
        return _read(ELFFile(cast(Any, metered)), metered, path)
    except UnreadableError:
        raise
    except BROKEN as error:
        raise UnreadableError(f"damaged: {error or type(error).__name__}") from error


def _read(elf: Any, data: Metered, path: str) -> ElfFacts:
    if not elf.little_endian or elf.elfclass != 64:
        return ElfFacts(path, _machine(elf), kind=_kind(elf), size=data.size)
    sections = _sections(elf)
    if ".dynamic" in sections and _is_hollow(sections[".dynamic"]):
        return ElfFacts(path, _machine(elf), kind="debug", size=data.size)
    versions, needed, offered = _versions(sections)
    defined, undefined = _symbols(elf, sections, data, versions)
    loaded, damage = _cuda(sections.get(SECTION), data, path, look=not path.startswith(NVIDIA))
    to_link, damage_to_link = _cuda(sections.get(TO_LINK), data, path)
    damage = (*damage, *damage_to_link)
    dynamic = _dynamic(elf)
    if dynamic and ".dynsym" not in sections:
        damage = (*damage, Damage(FindingCode.ELF_DAMAGED, path, "has no section of symbols"))
    return ElfFacts(
        path, _machine(elf), interpreter=_interpreter(elf), **dynamic,
        needed_versions=needed, defined=defined, undefined=undefined, cuda=loaded.code,
        cuda_to_link=to_link.code, regions=loaded.regions, stubs=loaded.stubs, size=data.size,
        kind=_kind(elf), defined_versions=offered, damage=damage)


def _sections(elf: Any) -> dict[str, Any]:
    """Return the sections by name, without those that point to one of the wrong kind."""
    by_name: dict[str, Any] = {}
    for number in range(min(elf.num_sections(), _MAX_ENTRIES)):
        try:
            section = elf.get_section(number)
        except ELFParseError:
            raise
        except ELFError:
            continue  # loaders ignore sections; the caller reports what is missed here
        by_name[section.name] = section
    return by_name


def _is_hollow(section: Any) -> bool:
    """Say whether a section is only described, as in a file of debugging information."""
    return bool(section["sh_type"] == "SHT_NOBITS")


def _machine(elf: Any) -> str:
    return str(elf["e_machine"]).removeprefix("EM_").lower()


def _kind(elf: Any) -> str:
    return str(elf["e_type"]).removeprefix("ET_").lower()


def _interpreter(elf: Any) -> str:
    for segment in islice(elf.iter_segments(), _MAX_ENTRIES):
        if isinstance(segment, InterpSegment):
            return str(segment.get_interp_name())
    return ""


def _dynamic(elf: Any) -> dict[str, Any]:
    """Return the entries of the dynamic segment: the loader reads it, not the section.

    The result is empty for a file without one, which is linked statically.
    """
    entries: dict[str, Any] = {}
    for segment in islice(elf.iter_segments(), _MAX_ENTRIES):
        if isinstance(segment, DynamicSegment):
            needed = list[str]()
            for tag in islice(cast(Iterator[Any], segment.iter_tags()), _MAX_ENTRIES):
                match tag.entry.d_tag:
                    case "DT_NEEDED":
                        needed.append(tag.needed)
                    case "DT_SONAME":
                        entries["soname"] = tag.soname
                    case "DT_RPATH":
                        entries["rpath"] = _paths(tag.rpath)
                    case "DT_RUNPATH":
                        entries["runpath"] = _paths(tag.runpath)
            entries["needed"] = tuple(needed)
    return entries


def _paths(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(":") if part)


def _versions(sections: dict[str, Any]) -> tuple[
        dict[int, str], tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...]]:
    """Return version names by index, those asked of each library, and those offered."""
    names: dict[int, str] = {}
    needed: dict[str, list[str]] = {}
    offered: list[str] = []
    for section in sections.values():
        if isinstance(section, GNUVerNeedSection):
            for library, asked in islice(section.iter_versions(), _MAX_ENTRIES):
                wanted = needed.setdefault(str(library.name), [])
                for one in islice(asked, _MAX_ENTRIES):
                    names[one.entry.vna_other & _VERSION_MASK] = one.name
                    if not one.entry.vna_flags & _WEAK_VERSION:
                        wanted.append(one.name)
        elif isinstance(section, GNUVerDefSection):
            for version, parts in islice(section.iter_versions(), _MAX_ENTRIES):
                name = next(iter(parts)).name  # the rest are its predecessors
                offered.append(name)
                if not version.entry.vd_flags & _BASE:  # that one is the library's own name
                    names[version.entry.vd_ndx & _VERSION_MASK] = name
    asked_of = tuple((name, tuple(found)) for name, found in needed.items())
    return names, asked_of, tuple(offered)


def _symbols(elf: Any, sections: dict[str, Any], data: Metered, versions: dict[int, str]
             ) -> tuple[tuple[Symbol, ...], tuple[Symbol, ...]]:
    """Return the defined and the undefined dynamic symbols, sorted."""
    table, numbers = sections.get(".dynsym"), sections.get(".gnu.version")
    if table is None or table["sh_type"] != "SHT_DYNSYM":
        return (), ()
    raw = _contents(table, data, "the symbol table", _SYMBOL_BYTES * MAX_SYMBOLS)
    text = _contents(elf.get_section(table["sh_link"]), data, "the table of names", _MAX_NAMES)
    indices: Iterable[int] = ()
    if numbers is not None:
        body = _contents(numbers, data, "the table of symbol versions", 2 * MAX_SYMBOLS)
        indices = struct.unpack(f"<{len(body) // 2}H", body[:len(body) // 2 * 2])
    defined: list[Symbol] = []
    undefined: list[Symbol] = []
    for symbol, here in _unpack(raw, text, iter(indices), versions):
        (defined if here else undefined).append(symbol)
    return tuple(sorted(defined, key=_ORDER)), tuple(sorted(undefined, key=_ORDER))


def _unpack(raw: bytes, text: bytes, indices: Iterator[int], versions: dict[int, str]
            ) -> Iterator[tuple[Symbol, bool]]:
    left = min(_NAMES_PER_STRING_TABLE * len(text) + _SPARE_NAMES, _MAX_NAMES)
    whole = raw[:len(raw) // _SYMBOL_BYTES * _SYMBOL_BYTES]
    for start, info, other, section, _, _ in _SYMBOL.iter_unpack(whole):
        version = next(indices, 0) & _VERSION_MASK
        binding = info >> 4
        if binding == _LOCAL or (section and other & 3 in _HIDDEN_VISIBILITY):
            continue
        end = text.find(b"\0", start)
        if end < 0:
            raise UnreadableError("a symbol's name lies outside of the table of names")
        left -= end - start
        if left < 0:
            raise UnreadableError("its symbols' names are longer than the table of names")
        name = text[start:end].decode("utf-8", "backslashreplace")
        yield Symbol(name, versions.get(version, ""), binding == _WEAK), section != 0


def _contents(section: Any, data: Metered, what: str, limit: int) -> bytes:
    if _is_hollow(section):
        return b""
    if section["sh_size"] > limit:
        raise UnreadableError(f"{what} has {section['sh_size']} bytes, more than {limit}")
    return data.exactly(section["sh_offset"], section["sh_size"], what)


def _cuda(section: Any, data: Metered, path: str, *, look: bool = False
          ) -> tuple[FatBinary, tuple[Damage, ...]]:
    if section is None or _is_hollow(section):
        return FatBinary(()), ()
    fat = read_fatbin(data, section["sh_offset"], section["sh_size"], look=look)
    damage = Damage(FindingCode.FATBIN_DAMAGED, path, f"{section.name}: {fat.damage}")
    return fat, (damage,) if fat.damage else ()
