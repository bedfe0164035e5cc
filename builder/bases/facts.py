"""What a base brings, known without building on it: from the repository, the cache or the engine.

The facts of locked bases are committed (``locks/facts/``), so that the gate needs no engine for
them; those of any other image are read from its file system once and kept by its id.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

from builder import console, limits
from builder.binaries import facts_cache
from builder.binaries.facts import BaseFacts, WheelFacts
from builder.binaries.image_facts import ImageFacts as FileSystem
from builder.binaries.image_facts import read_image
from builder.engine.client import Engine, ImageFacts, RunSpec
from builder.errors import LockError, UsageError
from builder.locking.base_lock import MAKE_AGAIN, LockedBase
from builder.locking.sums import FACTS, refuse_edited, restore_step, write_summed
from builder.text import one_line

SUFFIX = ".facts.xz"
MEMORY = 128 * limits.MB  # of the decompressor: what ``pack`` writes needs 68 MB


def facts_path(locks: Path, base: LockedBase) -> Path:
    """Return where the facts of a locked base are committed."""
    return locks / FACTS / f"{base.name}-{base.platform.rpartition('/')[2]}{SUFFIX}"


def committed(locks: Path, base: LockedBase) -> BaseFacts | None:
    """Return the committed facts of a base, if they are of this very one."""
    try:
        facts = _read(locks, base)
    except (OSError, ValueError, UsageError, LockError) as error:
        console.warn(f"{facts_path(locks, base)} cannot be used ({one_line(str(error), 200)}); "
                     "reading the base itself instead")
        return None
    return facts if facts and facts.digest == base.image_id else None


def facts_fault(locks: Path, base: LockedBase) -> str:
    """Say why the committed facts of a base are of no use; nothing where there are none."""
    try:
        facts = _read(locks, base)
    except (OSError, ValueError, UsageError, LockError) as error:
        fault = f"cannot be used: {one_line(getattr(error, 'what', None) or str(error), 200)}"
    else:
        fault = "are of another base" if facts and facts.digest != base.image_id else ""
    return (f"its committed facts {fault}; {restore_step(facts_path(locks, base))}" if fault
            else "")


def _read(locks: Path, base: LockedBase) -> BaseFacts | None:
    path = facts_path(locks, base)
    try:
        facts = unpack(limits.read_file(path, limits.LOCK_BYTES, "base's facts"))
    except FileNotFoundError:
        return None
    refuse_edited(path, "base's facts", MAKE_AGAIN)
    return facts


def commit(locks: Path, base: LockedBase, facts: BaseFacts) -> Path:
    """Write the facts of a locked base beside its lock."""
    return write_facts(locks, base, pack(facts))


def write_facts(locks: Path, base: LockedBase, packed: bytes) -> Path:
    """Write packed facts of a base beside its lock, with their sum."""
    path = facts_path(locks, base)
    write_summed(path, packed)
    return path


def of_image(engine: Engine, image: ImageFacts, cache: Path, name: str) -> BaseFacts:
    """Return the facts of an image on the engine, read once."""
    digest = image.id.removeprefix("sha256:")
    kept = facts_cache.load(cache, digest, name)
    if kept is not None:
        return _as_base(kept)
    facts = read_file_system(engine, image, cache, name).base
    facts_cache.save(cache, _as_wheel(facts))
    return facts


def read_file_system(engine: Engine, image: ImageFacts, cache: Path, name: str) -> FileSystem:
    """Read the whole file system of an image on the engine."""
    console.info(f"reading {name} …")
    spec = RunSpec(image.id, ("true",), platform=image.platform, entrypoint="")
    with engine.create(spec) as box, box.export() as stream:
        return read_image(stream, name, image.id, image.platform, facts_cache.scratch(cache))


def at_hand(engine: Engine, reference: str, platform: str | None) -> ImageFacts:
    """Return an image, pulled where the engine lacks it; raises UsageError for another platform."""
    image = engine.inspect(reference)
    if image is None or (platform and image.platform != platform):
        image = engine.pull(reference, platform)
    if platform and image.platform != platform:
        raise UsageError(f"this image is for {image.platform}, but {platform} is needed",
                         where=reference, next_step=f"name an image for {platform}")
    return image


def pack(facts: BaseFacts) -> bytes:
    """Return the facts as bytes, packed harder than the cache does: these are in the repository."""
    return lzma.compress(facts_cache.encode(_as_wheel(facts), packed=False), preset=9)


def unpack(body: bytes) -> BaseFacts:
    """Read what ``pack`` wrote; raises ValueError where it is damaged or far too large."""
    try:
        return _as_base(facts_cache.decode(_decompressed(body), packed=False))
    except (lzma.LZMAError, LookupError, TypeError, AttributeError, StopIteration, RecursionError,
            ) as error:
        raise ValueError(f"it is damaged: {type(error).__name__} {error}") from error


def _decompressed(body: bytes) -> bytes:
    """Decompress within bounds: a few kilobytes can stand for gigabytes."""
    reader = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)
    data = reader.decompress(body, limits.FACTS_BYTES + 1)
    if len(data) > limits.FACTS_BYTES:
        raise ValueError(f"it unpacks to more than {limits.FACTS_BYTES // limits.MB} MB")
    if not reader.eof or reader.unused_data:
        raise ValueError("it is cut off, or something follows it")
    return data


def _as_wheel(facts: BaseFacts) -> WheelFacts:
    """Put a base into the form that the cache has."""
    rest = {"glibc": facts.glibc, "packages": facts.packages, "owners": facts.owners,
            "tools": facts.tools, "digest": facts.digest}
    return WheelFacts(facts.name, facts.digest.removeprefix("sha256:"), facts.platform,
                      facts.python, elves=facts.libraries, metadata=json.dumps(rest))


def _as_base(facts: WheelFacts) -> BaseFacts:
    rest = json.loads(facts.metadata)
    return BaseFacts(
        facts.file, rest["digest"], facts.name, facts.version, rest["glibc"],
        libraries=facts.elves, packages=tuple((name, value) for name, value in rest["packages"]),
        owners=tuple((path, value) for path, value in rest["owners"]),
        tools=tuple(rest["tools"]))
