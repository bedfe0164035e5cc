"""Names that one part of the matrix gives and another uses: bases, indexes, axis values.

Works on the document as written, so that wrong names are found beside errors of shape and all
of them come at once; what is too misshapen to be read is left to the shape's own errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from math import prod
from string import Formatter
from typing import Any

from builder import specifiers
from builder.config_file import dotted, suggestion
from builder.errors import Problem
from builder.matrix.gpus import wrong_gpu
from builder.matrix.models import AXES, MOST_CELLS, VERSION_AXES, as_names, as_values
from builder.matrix.promotion import GPU_HARDWARE

Table = Mapping[str, Any]
Place = tuple[str | int, ...]


def wrong_references(raw: Table) -> Iterator[Problem]:
    """Find references to what is not there and choices that cannot be."""
    bases, indexes, images = (_table(raw, key) for key in ("bases", "indexes", "images"))
    too_many = list(_too_many_cells(images))
    if too_many:  # the other checks would take as long as the cells
        yield from too_many
        return
    for name, image in images.items():
        if isinstance(image, dict):
            here = ("images", name)
            yield from _wrong_bases(here, image, bases)
            yield from _wrong_indexes(here, image, indexes)
            yield from _wrong_axes(here, image)
            yield from _impossible_ranges(here, image)
            yield from _wrong_choices(here, image, bases)
            yield from _wrong_promotion(here, image, _table(raw, "promote"))
    yield from _wrong_snapshots(bases, _table(raw, "snapshots"))
    for number, block in enumerate(_list(raw.get("blocked"))):
        for glob in _texts(_table(block).get("images")):
            if not any(fnmatchcase(name, glob) for name in images):
                yield Problem(dotted(("blocked", number, "images")),
                              f'no image matches "{glob}"', _near(glob, list(images)))
    for name, patch in _table(raw, "patches").items():
        for glob in _texts(_table(patch).get("images")):
            if not any(_may_name_a_cell(glob, image) for image in images):
                yield Problem(dotted(("patches", name, "images")),
                              f'no image matches "{glob}"', _near(glob, list(images)))


def _near(word: str, known: list[str]) -> str:
    return suggestion(word, known) or "the matrix has none; add it"


def _wrong_snapshots(bases: Table, snapshots: Table) -> Iterator[Problem]:
    for name, base in bases.items():
        wanted = _table(base).get("snapshot")
        if isinstance(wanted, str) and wanted not in snapshots:
            yield Problem(dotted(("bases", name, "snapshot")), f'there is no snapshot "{wanted}"',
                          _near(wanted, list(snapshots)))


def _too_many_cells(images: Table) -> Iterator[Problem]:
    """Count the cells before any is made: the product of an image's axes, and all together."""
    counts = {name: prod(max(1, len(_slugs(_table(image), axis) or ())) for axis in AXES)
              + len(_list(_table(image).get("include"))) for name, image in images.items()}
    for name, count in counts.items():
        if count > MOST_CELLS:
            yield Problem(dotted(("images", name)), f"its axes make {count:,} cells; at most "
                          f"{MOST_CELLS:,} can be planned", "name fewer values")
    if max(counts.values(), default=0) <= MOST_CELLS < sum(counts.values()):
        yield Problem("images", f"they make {sum(counts.values()):,} cells together; at most "
                      f"{MOST_CELLS:,} can be planned", "name fewer values")


def _may_name_a_cell(glob: str, image: str) -> bool:
    """Say whether a glob matches an image, or could match a cell, whose id begins with it."""
    return fnmatchcase(image, glob) or glob.startswith(f"{image}-")


def _wrong_bases(here: tuple[str, ...], image: Table, bases: Table) -> Iterator[Problem]:
    for base in _texts(as_names(image.get("base"))):
        yield from _wrong_base((*here, "base"), base, image, bases)


def _wrong_base(where: Place, base: str, image: Table, bases: Table) -> Iterator[Problem]:
    if base not in bases:
        yield Problem(dotted(where), f'there is no base "{base}"', _near(base, list(bases)))
        return
    platforms = _texts(_table(bases, base).get("platforms"))
    platform = image.get("platform")
    if platforms and isinstance(platform, str) and platform not in platforms:
        yield Problem(dotted(where), f'base "{base}" is not made for {platform}',
                      f"add it to {dotted(('bases', base, 'platforms'))} or choose another base")


def _wrong_indexes(here: tuple[str, ...], image: Table, indexes: Table) -> Iterator[Problem]:
    for index in _texts(image.get("indexes")):
        where = dotted((*here, "indexes"))
        if index not in indexes:
            yield Problem(where, f'there is no index "{index}"', _near(index, list(indexes)))
            continue
        for axis in _placeholders(_table(indexes, index).get("url")):
            specs = [str(item.get("spec")) for item in _values(image, axis) or ()]
            # One that is no specifier is an error of its own.
            readable = all(specifiers.is_specifier(spec) for spec in specs)
            if readable and not (specs and all(specifiers.is_exact(spec) for spec in specs)):
                yield Problem(where, f'the address of index "{index}" is made of the exact '
                              f"{axis} version", f"name exact versions in {dotted((*here, axis))}")


def _placeholders(url: object) -> list[str]:
    """Return the known axes in an address; others are an error of the address itself."""
    if not isinstance(url, str):
        return []
    try:
        fields = {field for _, field, _, _ in Formatter().parse(url) if field}
    except ValueError:
        return []
    return sorted(fields & {"vllm", "torch"})


def _impossible_ranges(here: tuple[str, ...], image: Table) -> Iterator[Problem]:
    for axis in VERSION_AXES:
        for item in _values(image, axis) or ():
            spec = str(item.get("spec"))
            if specifiers.is_specifier(spec) and specifiers.is_impossible(spec):
                yield Problem(dotted((*here, axis)), f'no version can be in "{spec}"',
                              "correct its bounds")


def _wrong_axes(here: tuple[str, ...], image: Table) -> Iterator[Problem]:
    if (image.get("gpu") is None) != (image.get("cuda") is None):
        lacking = "gpu" if image.get("gpu") is None else "cuda"
        yield Problem(dotted((*here, "cuda")),
                      "gpu and cuda belong together: name both or neither",
                      f"add {lacking}, or leave the other out")
    for key, what, step in wrong_gpu(image.get("gpu"), image.get("cuda")):
        yield Problem(dotted((*here, key)), what, step)
    if image.get("lean") and image.get("gpu") is None:
        yield Problem(dotted((*here, "lean")), "a lean image leaves out what its GPU cannot run, "
                      "and no gpu is named", "name the gpu, or drop lean")
    if any(isinstance(item, dict) and item.get("override") for item in as_values(
            image.get("vllm"))):
        yield Problem(dotted((*here, "vllm")), "override has no meaning for vllm: no other package "
                      "says which vllm it wants", "drop override; it is for torch, flashinfer and "
                      "transformers")
    for axis in AXES:
        slugs = _slugs(image, axis) or []
        for slug in sorted(slug for slug, count in Counter(slugs).items() if count > 1):
            yield Problem(dotted((*here, axis)), f'two values are called "{slug}"',
                          "give one of them another name")


def _wrong_choices(here: tuple[str, ...], image: Table, bases: Table) -> Iterator[Problem]:
    """Check ``exclude`` (must name values that are there) and ``include`` (may name new ones)."""
    for number, choice in enumerate(_list(image.get("exclude"))):
        for axis, wanted in _choice(choice):
            slugs = _slugs(image, axis)
            if slugs is not None and wanted not in slugs:
                yield Problem(dotted((*here, "exclude", number, axis)),
                              f'the axis has no value "{wanted}"', _near(wanted, slugs))
    for number, choice in enumerate(_list(image.get("include"))):
        for axis, wanted in _choice(choice):
            where: Place = (*here, "include", number, axis)
            if axis == "base":
                yield from _wrong_base(where, wanted, image, bases)
            elif wanted not in (_slugs(image, axis) or ()):
                yield from _wrong_value(where, wanted)


def _wrong_value(where: Place, wanted: str) -> Iterator[Problem]:
    if not specifiers.is_specifier(wanted):
        yield Problem(dotted(where), f"{wanted!r} is neither a version nor a version specifier, "
                      "nor the name of one of the axis' values",
                      'write it like "0.20.2" or ">=0.20,<0.22"')


def _wrong_promotion(here: Place, image: Table, common: Table) -> Iterator[Problem]:
    """Refuse evidence of other hardware than the image's GPU, and a policy that is never used."""
    if image.get("never_promote") and image.get("promote") is not None:
        yield Problem(dotted((*here, "promote")), "this image also has never_promote",
                      "remove one of the two")
        return
    if image.get("never_promote"):
        return
    needed, own = GPU_HARDWARE.get(str(image.get("gpu"))), _table(image, "promote")
    where: Place = (*here, "promote") if own else ("promote",)
    for other in _texts((own or common).get("hardware")):
        if needed and other != needed:
            yield Problem(dotted((*where, "hardware")),
                          f'a record of "{other}" proves nothing about {image.get("gpu")}, which '
                          f"{dotted(here)} is made for", f'name "{needed}" alone; other records '
                          f"may count in {dotted((*where, 'unverified'))}")


def _choice(raw: Any) -> list[tuple[str, str]]:
    return [(axis, value) for axis, value in _table(raw).items()
            if axis in AXES and isinstance(value, str)]


def _slugs(image: Table, axis: str) -> list[str] | None:
    """Return the names of an axis' values; None where they cannot all be read."""
    if axis == "base":
        return _texts(as_names(image.get("base")))
    items = _values(image, axis)
    return None if items is None else [
        str(item.get("name") or specifiers.slug(item["spec"].strip())) for item in items]


def _values(image: Table, axis: str) -> list[dict[str, Any]] | None:
    if image.get(axis) is None:
        return []
    items = as_values(image[axis])
    readable = all(isinstance(item, dict) and isinstance(item.get("spec"), str) for item in items)
    return items if readable else None


def _table(raw: Any, key: str | None = None) -> dict[str, Any]:
    found = raw.get(key) if key is not None and isinstance(raw, dict) else raw
    return found if isinstance(found, dict) else {}


def _list(raw: Any) -> list[Any]:
    return raw if isinstance(raw, list) else []


def _texts(raw: Any) -> list[str]:
    return [item for item in _list(raw) if isinstance(item, str)]
