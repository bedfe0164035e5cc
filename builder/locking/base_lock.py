"""``locks/bases.toml``: each base as facts: image, digests and every Debian package in it.

Generated, committed, sorted, one package a line. A base that could not be made from this list on
some machine gets a lock of the same form under that machine's cache folder, with the reason in
``unlocked``; images on it are labelled so and are never published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from builder.config_file import shape_problems
from builder.errors import command
from builder.locking.generated import damaged, in_order, read_generated, repeated
from builder.locking.sums import write_summed
from builder.model import Frozen, Name

MAKE_AGAIN = f"remove it and make it again with {command('base', '--upgrade')}"
UPGRADE_STEP = f"restore it from git, or {MAKE_AGAIN}"
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
SNAPSHOT_FORMAT = "%Y%m%dT%H%M%SZ"
Word = Annotated[str, Field(pattern=r"^[!-~]*$")]
Key = tuple[str, str]  # ("slim", "linux/arm64")


def snapshot_time(text: str) -> str:
    """Accept a time as snapshot services write it, or nothing; else ValueError."""
    try:
        good = not text or datetime.strptime(text, SNAPSHOT_FORMAT).strftime(
            SNAPSHOT_FORMAT) == text
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{text!r} is not a time like 20261121T235959Z")
    return text


class LockedDeb(Frozen):
    """One Debian package; ``path`` is its place on a mirror, ``pool/…``, ``size`` its bytes.

    ``sha256`` and ``path`` are empty for packages that came inside somebody else's image.
    """

    name: Word
    version: Word
    arch: Word
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
    size: Annotated[int, Field(ge=0)]
    path: Word


class LockedBase(Frozen):
    """One base for one platform.

    ``image_id`` is the digest of the image's configuration and does not depend on the engine;
    ``digest`` is the manifest's, as pushed. ``recipe`` is the sha256 of what was asked for,
    ``epoch`` (Unix seconds) the latest time that a file in the image may carry, ``snapshot`` the
    time at which a snapshot service has all its packages (``20261121T235959Z``). ``unlocked`` is
    the reason why this is not the committed base, ``instead_of`` that base's image id.
    """

    name: Name
    platform: Literal["linux/amd64", "linux/arm64"]
    recipe: Digest
    image_id: Digest
    digest: Digest
    diff_ids: tuple[Digest, ...]
    python: Annotated[str, Field(pattern=r"^(\d{1,3}(\.\d{1,3}){1,2})?$")]
    glibc: Annotated[str, Field(pattern=r"^(\d{1,3}\.\d{1,3})?$")]
    epoch: Annotated[int, Field(ge=0, lt=1 << 33)]
    snapshot: Annotated[str, AfterValidator(snapshot_time)] = ""
    source: str = ""
    unlocked: str = ""
    instead_of: str = ""
    packages: tuple[LockedDeb, ...]

    @property
    def key(self) -> Key:
        """Return name and platform, by which bases are found."""
        return self.name, self.platform

    @property
    def arch(self) -> str:
        """Return Debian's name of the processor: ``amd64``, ``arm64``."""
        return self.platform.removeprefix("linux/")

    def package(self, name: str) -> LockedDeb | None:
        """Return one package by name."""
        return next((deb for deb in self.packages if deb.name == name), None)


class BaseLocks(Frozen):
    """The whole file."""

    base: tuple[LockedBase, ...] = ()


def load_bases(path: Path) -> dict[Key, LockedBase]:
    """Return the bases in ``path`` by name and platform; none where there is no such file.

    Raises LockError with every fault of a file that is not as ``write_bases`` writes it.
    """
    raw = read_generated(path, "bases' lock", UPGRADE_STEP)
    if raw is None:
        return {}
    faults = [f"{problem.where}: {problem.what}" for problem in shape_problems(BaseLocks, raw)]
    bases = () if faults else BaseLocks.model_validate(raw).base
    faults += _faults(bases)
    if faults:
        raise damaged("bases' lock", faults, path, UPGRADE_STEP)
    return {base.key: base for base in bases}


def _faults(bases: Sequence[LockedBase]) -> Iterator[str]:
    """Yield what is wrong with bases of the right shape: names, order, sizes, duplicates."""
    if not in_order(base.key for base in bases):
        yield "base: they are not sorted by name and platform"
    yield from (f"base: {key} is there twice"
                for key in repeated(" ".join(base.key) for base in bases))
    for base in bases:
        here = f"base.{base.name} {base.platform}"
        if not in_order(_order(deb) for deb in base.packages):
            yield f"{here}: its packages are not sorted by name"
        yield from (f"{here}: the package {name} is there twice"
                    for name in repeated(f"{deb.name} {deb.arch}" for deb in base.packages))
        yield from (f"{here}: {deb.name}: sha256 and path belong together, with a size above 0"
                    for deb in base.packages
                    if bool(deb.sha256) != bool(deb.path) or (deb.sha256 and not deb.size))


def _order(deb: LockedDeb) -> tuple[str, str]:
    return deb.name, deb.arch


def write_bases(path: Path, bases: Mapping[Key, LockedBase]) -> None:
    """Write all bases to ``path`` in one step, and its sum where the folder keeps sums."""
    write_summed(path, render(bases.values()).encode())


def render(bases: Iterable[LockedBase]) -> str:
    """Write bases as text: fixed key order, sorted, one package a line, so that merges are easy."""
    lines = ["# Generated by `sparkyard base`; do not edit."]
    for base in sorted(bases, key=lambda entry: entry.key):
        lines += ["", "[[base]]", *_facts(base), "packages = ["]
        lines += [f"    {{ {_inline(deb)} }}," for deb in sorted(
            base.packages, key=_order)]
        lines.append("]")
    return "\n".join(lines) + "\n"


def _facts(base: LockedBase) -> list[str]:
    facts = base.model_dump(exclude={"packages"}, exclude_defaults=True)
    return [f"{key} = {json.dumps(value)}" for key, value in facts.items()]


def _inline(deb: LockedDeb) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in deb.model_dump().items())
