"""Axes into cells: one exact combination each, with a stable id, selected by glob.

A cell's id is its image's name, followed by the value of every axis that is not at its default
(the first value of the axis), so that adding a value never renames a cell.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from pydantic import Field

from builder import specifiers
from builder.config_file import suggestion
from builder.errors import ConfigError, Problem, UsageError
from builder.matrix.models import (
    AXES,
    VERSION_AXES,
    AxisValue,
    Base,
    Blocked,
    Combination,
    Image,
    Index,
    Matrix,
    axis_slugs,
)
from builder.matrix.patch import Patch
from builder.matrix.promotion import Promotion, Retention
from builder.model import Frozen

PACKAGES = {"torch": "torch", "flashinfer": "flashinfer-python", "transformers": "transformers"}
MOST_SHOWN = 30  # cells in one message


class Cell(Frozen):
    """One exact combination of an image's axes, self-contained: all that resolving needs.

    ``axes`` maps each axis to its value's spec (the base to its name); ``requirements``,
    ``overrides`` and ``leave_out`` are what the resolver is given; ``indexes`` are the named
    upstream ones with their addresses filled in; ``patches`` those declared for it, of which the
    locked versions decide. ``never_promote`` says why it has no policy, ``promote``; both are empty
    where the matrix says nothing. ``wheels`` says which packages are compiled. ``blocks`` are
    those of its image: of an axis that is a range, the locked version decides.
    """

    id: str
    image: str
    platform: str
    gpu: str | None
    cuda: str | None
    base_name: str
    base: Base
    axes: Mapping[str, str]
    vllm_package: str
    requirements: tuple[str, ...]
    overrides: tuple[str, ...]
    leave_out: tuple[str, ...]
    indexes: Mapping[str, Index]
    promises: tuple[str, ...]
    patches: Mapping[str, Patch] = Field(default_factory=dict)
    blocked: Blocked | None
    blocks: tuple[Blocked, ...] = ()
    lean: bool = False
    promote: Promotion | None = None
    never_promote: str = ""
    retention: Retention = Retention()
    wheels: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)

    @property
    def machine(self) -> str:
        """Return the processor's name in wheel tags: ``aarch64`` or ``x86_64``."""
        return {"linux/arm64": "aarch64", "linux/amd64": "x86_64"}[self.platform]

    @property
    def is_cuda(self) -> bool:
        """Say whether the cell is meant for a GPU."""
        return self.gpu is not None

    def version_of(self, axis: str, versions: Mapping[str, str]) -> str | None:
        """Return an axis' locked version, the base's name for the base; None for an absent axis."""
        if axis == "base" or axis not in self.axes:
            return self.axes.get(axis)
        return versions.get(PACKAGES.get(axis, self.vllm_package))

    def blocked_with(self, versions: Mapping[str, str]) -> Blocked | None:
        """Return the block under which the locked versions (by package) of its axes fall."""
        for block in self.blocks:
            if all(_within(self.version_of(axis, versions), getattr(block, axis))
                   for axis in AXES):
                return block
        return None

    @property
    def intent_digest(self) -> str:
        """Return the sha256 of everything that the lock answers; a lock carries it to be checked.

        Descriptions and blocks are left out: they change no resolution. Patches and compiles too:
        a lock answers each of them by its own digest.
        """
        intent = {
            "platform": self.platform, "cuda": self.cuda, "gpu": self.gpu,
            "base": [self.base_name, self.base.flavour, self.base.python, self.base.glibc],
            "requirements": self.requirements, "overrides": self.overrides,
            "leave_out": self.leave_out, "promises": self.promises,
            "indexes": {name: [index.url, sorted(index.packages)]
                        for name, index in sorted(self.indexes.items())},
        }
        text = json.dumps(intent, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def expand(matrix: Matrix, file: str = "matrix.toml") -> tuple[Cell, ...]:
    """Return every cell of every image, in the matrix's order; raise ConfigError on equal ids.

    ``file`` is the matrix's name for people.
    """
    cells: dict[str, Cell] = {}
    clashes = []
    for name, image in matrix.images.items():
        values = {axis: {value.slug: value for value in getattr(image, axis) or ()}
                  for axis in VERSION_AXES}
        for choice in _choices(image):
            cell = _cell(matrix, name, choice, values)
            if cell.id in cells:
                clashes.append(Problem(
                    f"images.{name}", f'its cell "{cell.id}" is also one of images.'
                    f"{cells[cell.id].image}", "rename the image or the axis value"))
            cells[cell.id] = cell
    if clashes:
        raise ConfigError(file, clashes)
    return tuple(cells.values())


def select(cells: Sequence[Cell], patterns: Sequence[str],
           axes: Mapping[str, str] | None = None) -> tuple[Cell, ...]:
    """Return the cells that match any of the globs, all of them where none is given.

    A pattern is a cell id; with ``axes`` (``{"base": "slim"}``) it may be an image's name, and
    only the cells with those axis values remain. Raises UsageError for a pattern without match.
    """
    chosen: dict[str, Cell] = {}
    for pattern in patterns or ["*"]:
        found = [cell for cell in cells
                 if fnmatchcase(cell.id, pattern) or (axes and fnmatchcase(cell.image, pattern))]
        found = [cell for cell in found if all(
            cell.axes.get(axis) == value for axis, value in (axes or {}).items())]
        if not found:
            asked = "".join(f" --{axis} {value}" for axis, value in (axes or {}).items())
            raise UsageError(f'no cell matches "{pattern}"{asked}', where="command line",
                             next_step=_others(pattern, cells, axes or {}))
        chosen.update((cell.id, cell) for cell in found)
    return tuple(chosen.values())


def _others(pattern: str, cells: Sequence[Cell], axes: Mapping[str, str]) -> str:
    """Return the values that the axes of a known name have, else the cells that there are."""
    named = [cell for cell in cells if fnmatchcase(cell.id, pattern)
             or fnmatchcase(cell.image, pattern)]
    if not named or not axes:
        return near(pattern, [cell.id for cell in cells])
    values = {axis: {cell.axes[axis] for cell in named if axis in cell.axes} for axis in axes}
    known = [f"--{axis}: {', '.join(sorted(found))}" for axis, found in values.items()]
    return f"{pattern} is there with {'; '.join(known)}"


def near(pattern: str, ids: Sequence[str]) -> str:
    """Return the cell that was probably meant, and always which ones there are."""
    shown = ", ".join(sorted(ids)[:MOST_SHOWN])
    more = f" and {len(ids) - MOST_SHOWN} more" if len(ids) > MOST_SHOWN else ""
    guess = suggestion(pattern, ids) if ids else ""
    first = f"{guess}; " if guess.startswith("perhaps") else ""
    return f"{first}the cells are {shown}{more}" if ids else "name an image in the matrix"


def _choices(image: Image) -> Iterator[dict[str, str]]:
    """Yield each combination as axis -> slug: the product, less excluded, plus included ones."""
    slugs = {axis: found for axis in AXES if (found := axis_slugs(image, axis))}
    axes = list(slugs)
    for values in itertools.product(*slugs.values()):
        choice = dict(zip(axes, values, strict=True))
        if not any(_matches(choice, excluded) for excluded in image.exclude):
            yield choice
    defaults = {axis: slugs[axis][0] for axis in axes}
    for extra in image.include:
        yield {**defaults, **extra.model_dump(exclude_none=True)}


def _matches(choice: Mapping[str, str], excluded: Combination) -> bool:
    named = excluded.model_dump(exclude_none=True)
    return all(choice.get(axis) == value for axis, value in named.items())


def _cell(matrix: Matrix, name: str, choice: Mapping[str, str],
          known: Mapping[str, Mapping[str, AxisValue]]) -> Cell:
    """Make one cell; ``known`` are the image's axis values, and a new one is its own spec."""
    image, base = matrix.images[name], matrix.bases[choice["base"]]
    values = {axis: known[axis].get(slug) or AxisValue(spec=slug)
              for axis, slug in choice.items() if axis != "base"}
    axes = {"base": choice["base"], **{axis: value.spec for axis, value in values.items()}}
    defaults = {"base": image.base[0],
                **{axis: next(iter(found), None) for axis, found in known.items()}}
    never = image.never_promote or next(
        (value.never_promote for value in values.values() if value.never_promote), "")
    differing = [slug for axis, slug in choice.items() if slug != defaults[axis]]
    return Cell(
        id="-".join([name, *differing]), image=name, platform=image.platform, gpu=image.gpu,
        cuda=image.cuda, base_name=choice["base"], base=base, axes=axes,
        vllm_package=image.vllm_package, requirements=_requirements(image, base, values),
        overrides=tuple(specifiers.requirement(PACKAGES[axis], value.spec)
                        for axis, value in values.items() if value.override),
        leave_out=image.leave_out, indexes=_indexes(matrix, image, axes),
        promises=image.promises, blocked=_blocked(matrix, name, axes),
        blocks=_blocks(matrix, name),
        patches=_patches(matrix, name, "-".join([name, *differing])), lean=image.lean,
        promote=None if never else image.promote or matrix.promote, never_promote=never,
        retention=image.retention or matrix.retention,
        wheels=image.wheels,
    )


def _patches(matrix: Matrix, image: str, cell: str) -> dict[str, Patch]:
    return {name: patch for name, patch in matrix.patches.items()
            if any(fnmatchcase(image, glob) or fnmatchcase(cell, glob) for glob in patch.images)}


def _requirements(image: Image, base: Base, values: Mapping[str, AxisValue]) -> tuple[str, ...]:
    """VLLM first, then the other axes, the base's toolchain for CUDA, the image's own, and pip.

    pip is a member of the closure so that ``pip list`` and ``pip check`` in the image tell the
    truth; neither vLLM nor a minimal Debian brings it.
    """
    pins = [specifiers.requirement(image.vllm_package, values["vllm"].spec)]
    pins += [specifiers.requirement(PACKAGES[axis], value.spec) for axis, value in values.items()
             if axis != "vllm"]
    if image.cuda:
        pins += [text.replace("{cuda}", image.cuda) for text in base.toolchain]
    return (*pins, *image.requires, "pip")


def _indexes(matrix: Matrix, image: Image, axes: Mapping[str, str]) -> dict[str, Index]:
    """Fill the exact versions in the addresses of the indexes that the image names."""
    versions = {"vllm": axes["vllm"], "torch": axes.get("torch", "")}
    return {name: matrix.indexes[name].model_copy(
                update={"url": matrix.indexes[name].url.format_map(versions)})
            for name in image.indexes}


def _blocks(matrix: Matrix, image: str) -> tuple[Blocked, ...]:
    return tuple(block for block in matrix.blocked
                 if any(fnmatchcase(image, glob) for glob in block.images))


def _blocked(matrix: Matrix, image: str, axes: Mapping[str, str]) -> Blocked | None:
    for block in _blocks(matrix, image):
        if all(_within(axes.get(axis), getattr(block, axis)) for axis in AXES):
            return block
    return None


def _within(value: str | None, spec: str | None) -> bool:
    """Say whether an axis value is one that ``spec`` names; a range is named by itself only."""
    if spec is None:
        return True
    return value is not None and (value == spec or (
        specifiers.is_specifier(spec) and specifiers.allows(spec, value)))
