"""What each cell compiles, why, and about how long that takes on this machine; compiles nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builder.bases.state import Bases
from builder.errors import ConfigError
from builder.gate.judge import kept_verdict
from builder.locking.findings import Finding
from builder.locking.lock import Lock, read_lock
from builder.locking.lock import lock_path as place
from builder.matrix.cells import Cell
from builder.model import Frozen
from builder.patches.load import Ask, load_series
from builder.patches.status import Candidate
from builder.wheels.decision import Decision, Take, decide
from builder.wheels.estimate import Machine, costs, estimate
from builder.wheels.policy import lock_problems, policy_of
from builder.wheels.recipe import Recipe
from builder.workspace import Workspace


@dataclass(frozen=True)
class Decided:
    """A decision with what it was made from."""

    decision: Decision
    recipe: Recipe | None
    series: tuple[Candidate, ...]


class PackagePlan(Frozen):
    """One package of a cell: what is taken and why; the rest is empty for a published wheel.

    ``locked`` is the version of the compiled wheel in the lock. ``seconds`` is an estimate for
    this machine, with ``jobs`` at once; ``fits`` is false where one job lacks its memory.
    """

    cell: str
    package: str
    version: str
    take: Take
    targets: tuple[str, ...] = ()
    why: str = ""
    locked: str = ""
    seconds: float | None = None
    jobs: int | None = None
    fits: bool = True


def decisions(workspace: Workspace, cell: Cell, lock: Lock, bases: Bases,
              recipes: dict[str, Recipe], *, strict: bool, ask: Ask | None = None
              ) -> list[Decided]:
    """Decide on every package that the matrix names for a cell; ``lock`` has published wheels.

    Raises ConfigError where the matrix asks for what no recipe has, and, if ``strict``, PatchError
    where locked bytes of a patch cannot be had.
    """
    if problems := lock_problems(cell, lock, recipes):
        raise ConfigError(workspace.file, problems)
    named = [wheel for wheel in lock.wheels if policy_of(cell, wheel.name) != ("published",)]
    if not named:
        return []
    series = load_series(workspace, cell, lock, strict=strict, ask=ask)
    findings = _findings(workspace, cell, lock, bases)
    return [Decided(decide(cell, wheel, recipes.get(wheel.name), series.get(wheel.name, ()),
                           findings, workspace.file), recipes.get(wheel.name),
                    tuple(series.get(wheel.name, ()))) for wheel in named]


def _findings(workspace: Workspace, cell: Cell, lock: Lock, bases: Bases) -> Sequence[Finding]:
    """Return what the gate has said of this lock; nothing where it was not asked yet."""
    base = bases.get((cell.base_name, cell.platform))
    report = kept_verdict(cell, lock, base.image_id, workspace.cache) if base else None
    return report.findings if report else ()


def plan_cell(workspace: Workspace, cell: Cell, lock: Lock, bases: Bases,
              recipes: dict[str, Recipe], machine: Machine, ask: Ask | None = None
              ) -> list[PackagePlan]:
    """Return the plan of each package that the matrix names for a cell."""
    found = read_lock(place(workspace.locks, cell))
    compiled = {entry.name: entry for entry in found.compiled}
    plans = []
    for each in decisions(workspace, cell, lock, bases, recipes, strict=False, ask=ask):
        decision, entry = each.decision, compiled.get(each.decision.wheel.name)
        facts: dict[str, object] = {
            "cell": cell.id, "package": decision.wheel.name, "take": decision.take,
            "version": decision.wheel.version, "targets": decision.targets,
            "why": decision.why}
        if decision.take is not Take.PUBLISHED and each.recipe is not None:
            time = estimate(costs(each.recipe, decision.targets), machine)
            facts |= {"seconds": time.seconds, "jobs": time.jobs, "fits": time.fits}
        wheel = found.wheel(decision.wheel.name)
        if entry and wheel and entry.targets == decision.targets:
            facts["locked"] = wheel.version
        plans.append(PackagePlan.model_validate(facts))
    return plans
