"""Facts of wheels, kept by the wheel's digest: a changed wheel costs only itself.

::

    facts/<readers>/<sha256 of the wheel>    one file a wheel

A file is a line with the sha256 of the rest, then zlib-packed JSON, a NUL and all names of
symbols, NUL-separated: a closure has 270,000 of them, and splitting one text is the quickest way
to get them back. A file that is damaged or was edited is removed, and the wheel is read again.
"""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby, islice, repeat
from pathlib import Path
from typing import Any

from builder.binaries.facts import (
    Code,
    Damage,
    ElfFacts,
    Form,
    Region,
    Stub,
    Symbol,
    WheelFacts,
)
from builder.errors import UsageError
from builder.files import write_bytes
from builder.limits import read_file
from builder.locking.findings import FindingCode
from builder.removal import remove_file

# Facts are valid for the readers that made them: a changed reader reads every wheel again. Beside
# this package, archive members are checked by:
ELSEWHERE = ("tarball.py",)
MAX_BYTES = 128 << 20  # of one wheel's facts, unpacked; torch's have 17 MB
MAX_JSON = 16 << 20  # of what is not names of symbols; torch's has 1.4 MB
MAX_NAMES = 4_000_000  # of symbols; torch has 240,000


def load(root: Path, sha256: str, file: str) -> WheelFacts | None:
    """Return the facts of a wheel called ``file``, or None where they are not known."""
    path = _place(root, sha256)
    try:
        packed = read_file(path, MAX_BYTES, "cache entry")
    except (OSError, UsageError):
        return None
    digest, _, body = packed.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() == digest:
        try:
            with _no_collection():
                return dataclasses.replace(decode(body), file=file)
        except (zlib.error, ValueError, LookupError, TypeError, AttributeError, RecursionError,
                OverflowError):
            pass  # not what was written here
    remove_file(path, root)
    return None


def save(root: Path, facts: WheelFacts) -> None:
    """Keep the facts of a wheel."""
    body = encode(facts)
    write_bytes(_place(root, facts.sha256),
                hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def scratch(root: Path) -> Path:
    """Return a folder for temporary files, on the cache's disk and not in memory."""
    folder = root / "facts" / "tmp"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def encode(facts: WheelFacts, *, packed: bool = True) -> bytes:
    """Return facts as bytes."""
    names: list[str] = []
    plain = _plain(facts)
    plain["elves"] = [{**_plain(elf), "defined": _groups(elf.defined, names),
                       "undefined": _groups(elf.undefined, names)} for elf in facts.elves]
    text = json.dumps(plain, default=_plain, ensure_ascii=False, separators=(",", ":"))
    body = "\0".join((text, *names)).encode("utf-8", "surrogatepass")
    return zlib.compress(body, 3) if packed else body


def decode(body: bytes, *, packed: bool = True) -> WheelFacts:
    """Return what ``encode`` was given."""
    plain_body = _unpacked(body) if packed else body
    end = plain_body.find(b"\0")
    if plain_body.count(b"\0") > MAX_NAMES or (len(plain_body) if end < 0 else end) > MAX_JSON:
        raise ValueError("it holds far more than the facts of any wheel")
    text, *names = plain_body.decode("utf-8", "surrogatepass").split("\0")
    plain = json.loads(text)
    symbols = iter(names)
    plain["elves"] = tuple(_elf(elf, symbols) for elf in plain["elves"])
    plain["cubins"] = tuple((path, _code(code)) for path, code in plain["cubins"])
    plain["members"] = tuple(map(tuple, plain["members"]))
    plain["tags"] = tuple(plain["tags"])
    plain["damage"] = tuple(map(_damage, plain["damage"]))
    plain["targets"] = tuple((path, tuple(known)) for path, known in plain.get("targets", ()))
    return WheelFacts(**plain)


def _unpacked(body: bytes) -> bytes:
    reader = zlib.decompressobj()
    data = reader.decompress(body, MAX_BYTES)
    if not reader.eof:
        raise ValueError(f"it is cut off, or unpacks to more than {MAX_BYTES} bytes")
    return data


def _place(root: Path, sha256: str) -> Path:
    return root / "facts" / reader() / sha256


@cache
def reader() -> str:
    """Return a name for the readers as they are now."""
    state = hashlib.sha256()
    for path in sources():
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


def sources() -> Sequence[Path]:
    """Return every file of ours that facts depend on."""
    here = Path(__file__).parent
    return [*sorted(here.glob("*.py")), *(here.parent / name for name in ELSEWHERE)]


def _plain(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _groups(symbols: tuple[Symbol, ...], names: list[str]) -> list[tuple[str, bool, int]]:
    """Append the symbols' names to ``names``; return runs of equal version and weakness."""
    groups = []
    for (version, weak), run in groupby(symbols, key=lambda one: (one.version, one.weak)):
        before = len(names)
        names.extend(symbol.name for symbol in run)
        groups.append((version, weak, len(names) - before))
    return groups


def _elf(plain: dict[str, Any], names: Iterator[str]) -> ElfFacts:
    for field in ("defined", "undefined"):
        plain[field] = tuple(symbol for version, weak, count in plain[field]
                             for symbol in map(Symbol, islice(names, count), repeat(version),
                                               repeat(weak)))
    for field in ("needed", "rpath", "runpath", "defined_versions"):
        plain[field] = tuple(plain[field])
    plain["needed_versions"] = tuple((library, tuple(versions))
                                     for library, versions in plain["needed_versions"])
    for field in ("cuda", "cuda_to_link"):
        plain[field] = tuple(map(_code, plain[field]))
    plain["damage"] = tuple(map(_damage, plain["damage"]))
    plain["regions"] = tuple(Region(tuple(one["codes"]), one["count"])
                             for one in plain.get("regions", ()))
    plain["stubs"] = tuple(Stub(**one) for one in plain.get("stubs", ()))
    return ElfFacts(**plain)


def _damage(plain: dict[str, Any]) -> Damage:
    return Damage(**{**plain, "code": FindingCode(plain["code"])})


def _code(plain: dict[str, Any]) -> Code:
    return Code(**{**plain, "form": Form(plain["form"])})


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from looking at every new tuple: nothing here is garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
