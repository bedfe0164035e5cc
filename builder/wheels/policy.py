"""What the matrix says under ``wheels``, and whether a recipe can do it; compiles nothing.

What needs no lock to be wrong (a package without a recipe, an unknown target) is an error of the
matrix; what a lock decides (its version, its packages) concerns that cell alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from packaging.utils import canonicalize_name

from builder.config_file import suggestion
from builder.errors import ConfigError, Problem
from builder.locking.lock import Lock, LockedWheel
from builder.matrix.cells import Cell
from builder.matrix.models import AUTO, PUBLISHED, SOURCE
from builder.wheels.recipe import FOLDER, Recipe, load_recipes
from builder.workspace import Workspace


def policy_of(cell: Cell, package: str) -> tuple[str, ...]:
    """Return what the matrix says of a package: one word, or names of targets."""
    for name, policy in cell.wheels.items():
        if canonicalize_name(name) == package:
            return policy
    return (PUBLISHED,)


def checked_recipes(workspace: Workspace, cells: Sequence[Cell]) -> dict[str, Recipe]:
    """Return the recipes of compiles; raise ConfigError for each policy that none of them can do.

    They are not read where no cell names a package.
    """
    if not any(cell.wheels for cell in cells):
        return {}
    recipes = load_recipes(workspace.root)
    problems = dict.fromkeys(problem for cell in cells for name, policy in cell.wheels.items()
                             for problem in policy_problems(cell, name, policy, recipes))
    if problems:
        raise ConfigError(workspace.file, list(problems))
    return recipes


def policy_problems(cell: Cell, name: str, policy: tuple[str, ...], recipes: Mapping[str, Recipe]
                    ) -> Iterator[Problem]:
    """Yield what is wrong with the policy of one package, whatever is locked."""
    package, where = str(canonicalize_name(name)), f"images.{cell.image}.wheels.{name}"
    if policy == (PUBLISHED,):
        return
    recipe = recipes.get(package)
    if recipe is None:
        yield Problem(where, f"there is no {FOLDER}/{package}.toml that says how to compile it",
                      'write one, or say "published"')
        return
    words = (AUTO, PUBLISHED, *((SOURCE,) if recipe.whole else ()), *recipe.targets)
    for target in policy:
        if target not in (AUTO, SOURCE, *recipe.targets):
            yield Problem(where, f'there is no target "{target}"', suggestion(target, words))
    if policy == (SOURCE,) and recipe.whole is None:
        yield Problem(where, "its recipe compiles targets only",
                      "name the targets, or add [whole] to the recipe")
    if cell.gpu != recipe.gpu:
        yield Problem(where, f"its recipe is for {recipe.gpu or 'no GPU'}, the image for "
                      f"{cell.gpu or 'no GPU'}", f'say "published", or change {FOLDER}/'
                      f"{package}.toml")


def version_problems(cell: Cell, wheel: LockedWheel, recipe: Recipe) -> Iterator[Problem]:
    """Yield what is wrong where a recipe does not know the locked version."""
    if source_version(wheel.version) not in recipe.sources:
        yield Problem(f"images.{cell.image}.wheels.{wheel.name}",
                      f"{FOLDER}/{wheel.name}.toml has no sources of {wheel.version}",
                      "it has " + ", ".join(recipe.sources))


def lock_problems(cell: Cell, lock: Lock, recipes: Mapping[str, Recipe]) -> list[Problem]:
    """Return what a cell's lock does not have or has in a version that no recipe knows."""
    problems: list[Problem] = []
    published = lock.published if cell.wheels else lock
    for name, policy in cell.wheels.items():
        package = str(canonicalize_name(name))
        wheel, recipe = published.wheel(package), recipes.get(package)
        if wheel is None:
            problems.append(Problem(
                f"images.{cell.image}.wheels.{name}", f"the lock of {cell.id} has no {package}",
                "drop the entry, or correct its name"))
        elif policy != (PUBLISHED,) and recipe is not None:
            problems += version_problems(cell, wheel, recipe)
    return problems


def source_version(version: str) -> str:
    """Return the version of the sources that a published wheel was made from."""
    return version.partition("+")[0]
