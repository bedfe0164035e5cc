"""What a base brings, known without building on it: from the repository, the cache or the engine.

The facts of locked bases are committed (``locks/facts/``), so that the gate needs no engine for
them; those of any other image are read from its file system once and kept by its id.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

from builder import console
from builder.binaries import facts_cache
from builder.binaries.facts import BaseFacts, WheelFacts
from builder.binaries.image_facts import ImageFacts as FileSystem
from builder.binaries.image_facts import read_image
from builder.engine.client import Engine, ImageFacts, RunSpec
from builder.errors import UsageError
from builder.files import write_bytes
from builder.locking.base_lock import LockedBase

SUFFIX = ".facts.xz"


def facts_path(locks: Path, base: LockedBase) -> Path:
    """Return where the facts of a locked base are committed."""
    return locks / "facts" / f"{base.name}-{base.platform.rpartition('/')[2]}{SUFFIX}"


def committed(locks: Path, base: LockedBase) -> BaseFacts | None:
    """Return the committed facts of a base, if they are of this very one."""
    try:
        facts = unpack(facts_path(locks, base).read_bytes())
    except (OSError, ValueError, KeyError):
        return None
    return facts if facts.digest == base.image_id else None


def commit(locks: Path, base: LockedBase, facts: BaseFacts) -> Path:
    """Write the facts of a locked base beside its lock."""
    path = facts_path(locks, base)
    write_bytes(path, pack(facts))
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
    """Return an image, pulled where the engine does not have it; says what to do if it cannot."""
    image = engine.inspect(reference)
    if image is None or (platform and image.platform != platform):
        image = engine.pull(reference, platform)
    if platform and image.platform != platform:
        raise UsageError(f"this image is for {image.platform}, the cell for {platform}",
                         where=reference, next_step="name one for the cell's platform")
    return image


def pack(facts: BaseFacts) -> bytes:
    """Return the facts as bytes, packed harder than the cache does: these are in the repository."""
    return lzma.compress(facts_cache.encode(_as_wheel(facts), packed=False), preset=9)


def unpack(body: bytes) -> BaseFacts:
    """Read what ``pack`` wrote; raises ValueError or KeyError where it is damaged."""
    try:
        return _as_base(facts_cache.decode(lzma.decompress(body), packed=False))
    except (lzma.LZMAError, TypeError, StopIteration) as error:
        raise ValueError(str(error)) from error


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
