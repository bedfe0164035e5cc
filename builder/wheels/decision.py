"""What becomes of a package in a cell: the published wheel, some targets anew, or all from source.

The matrix decides; where it says ``auto``, a locked patch that touches files of a target asks for
that target, and so does a finding of the gate on a file that the target makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from builder.errors import ConfigError, Problem
from builder.locking.findings import Finding, FindingCode, Severity
from builder.locking.lock import LockedWheel
from builder.matrix.cells import Cell
from builder.matrix.models import AUTO, PUBLISHED, SOURCE
from builder.patches.status import Candidate
from builder.wheels.native import compiled_files
from builder.wheels.policy import policy_of, policy_problems, version_problems
from builder.wheels.recipe import FOLDER, Recipe

# What a compile for the cell's GPU and torch mends; every other finding has another remedy.
MENDED = frozenset({
    FindingCode.NO_GPU_CODE, FindingCode.ARCH_EXACT_ONLY, FindingCode.ARCH_EXACT_PART,
    FindingCode.EMPTY_KERNELS, FindingCode.UNDEFINED_SYMBOL, FindingCode.WRONG_EXTENSION})


class Take(StrEnum):
    """Where a package's wheel comes from."""

    PUBLISHED = "published"
    REBUILD = "rebuild"
    SOURCE = "source"


@dataclass(frozen=True)
class Decision:
    """What is done with a package, and why; ``unknown`` are patches that could not be read."""

    wheel: LockedWheel
    take: Take
    targets: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """Return the reasons in one line."""
        unknown = [f"{name} is not available and was not looked at" for name in self.unknown]
        return "; ".join([*self.reasons, *unknown])


def decide(cell: Cell, wheel: LockedWheel, recipe: Recipe | None, series: Sequence[Candidate],
           findings: Iterable[Finding] = (), file: str = "matrix.toml") -> Decision:
    """Decide on one locked wheel; raises ConfigError where the matrix asks for what no recipe has.

    ``series`` are the locked patches for the wheel, ``findings`` what the gate said of the lock,
    ``file`` is the matrix's name for people.
    """
    policy = policy_of(cell, wheel.name)
    if policy == (PUBLISHED,):
        return Decision(wheel, Take.PUBLISHED, reasons=("the matrix says so",))
    _check(cell, wheel, recipe, policy, file)
    assert recipe is not None
    unknown = tuple(each.id for each in series if each.diff is None)
    touched, orphans = _touched(recipe, series)
    if policy == (SOURCE,):
        return Decision(wheel, Take.SOURCE, reasons=("the matrix says so",), unknown=unknown)
    if orphans:
        _refuse_orphans(cell, wheel, recipe, orphans)
        return Decision(wheel, Take.SOURCE, reasons=tuple(
            f"{patch} touches {file}, which no target compiles" for file, patch in orphans.items()),
            unknown=unknown)
    if policy != (AUTO,):
        _refuse_halves(cell, wheel, policy, touched, file)
        return Decision(wheel, Take.REBUILD, policy, ("the matrix says so",), unknown)
    asked = _merged(touched, _found(recipe, wheel, findings))
    if not asked:
        return Decision(wheel, Take.PUBLISHED, reasons=(
            "no patch and no finding of the gate asks for a compile",), unknown=unknown)
    reasons = dict.fromkeys(reason for name in asked for reason in asked[name])
    return Decision(wheel, Take.REBUILD, tuple(asked), tuple(reasons), unknown)


def targets_of(recipe: Recipe, path: str) -> tuple[str, ...]:
    """Return the targets that are compiled from a source file."""
    return tuple(name for name, target in recipe.targets.items()
                 if any(fnmatchcase(path, glob) for glob in target.sources))


def _touched(recipe: Recipe, series: Sequence[Candidate]
             ) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the reasons by target, and the compiled files of no target with their patch."""
    touched: dict[str, list[str]] = {}
    orphans: dict[str, str] = {}
    for each in series:
        for path in dict.fromkeys(path for file in compiled_files(each) for path in file.paths):
            names = targets_of(recipe, path)
            if not names:
                orphans[path] = each.id
            for name in names:
                touched.setdefault(name, []).append(f"{each.id} touches {path}")
    return {name: _shortened(reasons) for name, reasons in touched.items()}, orphans


def _shortened(reasons: Sequence[str]) -> list[str]:
    """Name the first file of each patch, and how many more there are."""
    first: dict[str, list[str]] = {}
    for reason in reasons:
        first.setdefault(reason.partition(" touches ")[0], []).append(reason)
    return [found[0] + (f" and {len(found) - 1} more" if len(found) > 1 else "")
            for found in first.values()]


def _found(recipe: Recipe, wheel: LockedWheel, findings: Iterable[Finding]
           ) -> dict[str, list[str]]:
    makers = {file: name for name, target in recipe.targets.items() for file in target.files}
    found: dict[str, list[str]] = {}
    for finding in findings:
        maker = makers.get(finding.file)
        if (maker and finding.wheel == wheel.file and finding.severity is Severity.ERROR
                and finding.code in MENDED):
            found.setdefault(maker, []).append(f"the gate found {finding.code} in {finding.file}")
    return found


def _merged(*parts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    names = sorted({name for part in parts for name in part})
    return {name: [reason for part in parts for reason in part.get(name, ())] for name in names}


def _check(cell: Cell, wheel: LockedWheel, recipe: Recipe | None, policy: tuple[str, ...],
           file: str) -> None:
    """Refuse what no recipe can do: everything that is wrong at once."""
    recipes = {} if recipe is None else {wheel.name: recipe}
    problems = list(policy_problems(cell, wheel.name, policy, recipes))
    if recipe is not None:
        problems += version_problems(cell, wheel, recipe)
    if problems:
        raise ConfigError(file, problems)


def _refuse_orphans(cell: Cell, wheel: LockedWheel, recipe: Recipe, orphans: Mapping[str, str]
                    ) -> None:
    if recipe.whole is None:
        raise ConfigError(f"{FOLDER}/{wheel.name}.toml", [
            Problem("targets", f"{patch} touches {path}, which no target compiles",
                    f"add it to the sources of a target; needed by {cell.id}")
            for path, patch in orphans.items()])


def _refuse_halves(cell: Cell, wheel: LockedWheel, policy: tuple[str, ...],
                   touched: Mapping[str, Sequence[str]], file: str) -> None:
    """Refuse to rebuild one target of a patch, and to leave another as published."""
    missing = sorted(touched.keys() - set(policy))
    if missing:
        raise ConfigError(file, [
            Problem(f"images.{cell.image}.wheels.{wheel.name}",
                    f"{touched[name][0]}, so {name} has to be compiled too", f'add "{name}"')
            for name in missing])
