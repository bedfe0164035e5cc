"""``wheels build``: decide, compile what is new, put the wheels together, judge and lock them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builder import console
from builder.bases.state import Bases, read_bases
from builder.errors import LockError, VerdictError, command
from builder.fetch.wheels import fetch_lock
from builder.gate.run import gate_cell, own_base
from builder.locking.base_lock import LockedBase
from builder.locking.compiled import compiled_entry, with_compiled
from builder.locking.lock import Lock, load_published, lock_path, read_lock, write_lock
from builder.locking.sums import is_as_written
from builder.matrix.cells import Cell
from builder.store.content_store import Store
from builder.wheels.decision import Take
from builder.wheels.order import Compiler
from builder.wheels.plan import Decided, decisions
from builder.wheels.recipe import Recipe, load_recipes
from builder.wheels.stage import Outcome, job_for, run_job
from builder.workspace import Workspace


@dataclass(frozen=True)
class Builder:
    """What all cells of one run share."""

    workspace: Workspace
    compiler: Compiler
    store: Store
    bases: Bases
    recipes: dict[str, Recipe]
    jobs: int | None = None
    again: bool = False


def build_cells(workspace: Workspace, cells: Sequence[Cell], compiler: Compiler,
                jobs: int | None = None, *, again: bool = False) -> int:
    """Compile and lock what the cells need; return 0, or raise the error of the first failure.

    With ``again`` what is there is compiled once more, and compared.
    """
    builder = Builder(workspace, compiler, Store(workspace.cache), read_bases(workspace),
                      load_recipes(workspace.root), jobs, again)
    outcomes = [outcome for cell in cells for outcome in build_cell(builder, cell)]
    if outcomes:
        console.table("", ("cell", "wheel", "files from", "objects", "cached", "time",
                           "peak memory"), [_row(outcome) for outcome in outcomes])
    else:
        console.info("nothing to compile: every package is taken as it is published")
    return 0


def build_cell(builder: Builder, cell: Cell) -> list[Outcome]:
    """Compile what a cell needs and lock it; a package that needs nothing is locked as published.

    The lock is written once, when all of its wheels are there and judged.
    """
    locks, workspace = builder.workspace.locks, builder.workspace
    published = lock = load_published(cell, locks)
    outcomes = []
    for each in decisions(workspace, cell, published, builder.bases, builder.recipes, strict=True):
        console.info(f"{cell.id}: {each.decision.wheel.name}: {each.decision.take}: "
                     f"{each.decision.why}")
        if each.decision.take is Take.PUBLISHED or each.recipe is None:
            continue
        outcome = _run(builder, cell, published, each, each.recipe)
        outcomes.append(outcome)
        lock = with_compiled(lock, compiled_entry(
            each.decision.wheel, outcome.job.key, each.decision.targets,
            [patch.sha256 for patch in outcome.job.native.applied]), outcome.wheel)
    _judge(builder, cell, lock)
    path = lock_path(locks, cell)
    if lock != read_lock(path) or not is_as_written(path):  # the latter after a run that was killed
        console.info(f"locked in {write_lock(locks, lock).name}: "
                     + (", ".join(outcome.wheel.file for outcome in outcomes) or "as published"))
    return outcomes


def _run(builder: Builder, cell: Cell, lock: Lock, each: Decided, recipe: Recipe) -> Outcome:
    base = _base(builder.bases, cell)
    job = job_for(cell, lock, each.decision, recipe, base, each.series, builder.compiler,
                  builder.store)
    for verdict in job.native.verdicts:
        console.info(f"  {verdict.line}")
    return run_job(builder.workspace.registry, job, builder.compiler, builder.store,
                   jobs=builder.jobs, again=builder.again)


def _base(bases: Bases, cell: Cell) -> LockedBase:
    base = bases.get((cell.base_name, cell.platform))
    if base is None:
        raise LockError(f"the base {cell.base_name} is not locked for {cell.platform}",
                        where=cell.id, next_step="make it with "
                        + command("base", cell.base_name))
    return base


def _judge(builder: Builder, cell: Cell, lock: Lock) -> None:
    """Refuse compiled wheels in which the gate finds an error; raises VerdictError.

    The whole closure is judged, so its other wheels must be there; where they are not, the gate of
    the next build judges the same lock.
    """
    if not lock.compiled:
        return
    missing = [wheel for wheel in lock.wheels if builder.store.find_wheel(wheel) is None]
    if missing:
        console.info(f"{len(missing)} other wheels of {cell.id} are not fetched: the gate judges "
                     f"them together with {command('gate', cell.id)}, or when the image is built")
        return
    source = own_base(builder.workspace, builder.bases.get((cell.base_name, cell.platform)))
    report = gate_cell(builder.workspace, cell, lock, source,
                       lambda: fetch_lock(lock, builder.store, cell.indexes))
    compiled = {lock_wheel.file for entry in lock.compiled
                if (lock_wheel := lock.wheel(entry.name))}
    errors = [finding for finding in report.errors if finding.wheel in compiled]
    if errors:
        raise VerdictError("the gate refuses what was compiled, and it is not locked\n"
                           + "\n".join(str(finding) for finding in errors), where=cell.id,
                           next_step="correct the recipe in wheels/ or the patch")


def _row(outcome: Outcome) -> tuple[object, ...]:
    facts = outcome.rebuilt.provenance
    rate = facts.hit_rate
    return (outcome.job.cell.id, outcome.wheel.file, outcome.origin, facts.objects,
            "-" if rate is None else f"{rate:.0%}", console.seconds(facts.seconds),
            console.size(facts.peak_memory) if facts.peak_memory else "-")
