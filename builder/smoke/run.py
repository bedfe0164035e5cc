"""One run of one level on one image: each check goes to the record as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from builder import console
from builder.diagnosis.catalogue import load
from builder.diagnosis.matching import diagnose
from builder.engine.client import Engine, ImageFacts
from builder.fetch.wheels import fetch_lock
from builder.gate.run import gate_cell, own_base
from builder.locking.lock import Lock
from builder.matrix.cells import Cell
from builder.patches.revision import as_patched
from builder.recipes.models import Recipe
from builder.record.check import Check, OnCheck, Status
from builder.record.gpu import place
from builder.record.models import Level, Record
from builder.record.writer import RecordWriter
from builder.smoke.agreement import NAME, agreement
from builder.smoke.levels import generate, look
from builder.smoke.seen import KeptLog, Seen
from builder.smoke.server import serve_and_ask
from builder.store.content_store import Store
from builder.workspace import Workspace


@dataclass(frozen=True)
class Run:
    """What a run needs; ``model`` is the folder of the checkpoint, where it is one.

    ``image`` is called ``reference``; ``foreign`` is one that need not hold what the lock says.
    """

    workspace: Workspace
    engine: Engine
    cell: Cell
    lock: Lock
    level: Level
    recipe: Recipe
    model: Path | None
    reference: str
    image: ImageFacts
    foreign: bool = False

    @property
    def emulated(self) -> bool:
        """Say whether the engine's machine has another processor than the image is for."""
        return self.cell.platform != self.engine.info.platform


def perform(run: Run, writer: RecordWriter) -> Record:
    """Run the level; whatever happens, each check and each line of the log is kept as it comes."""
    with closing(KeptLog(run.workspace.cache / writer.record.log)) as log:
        seen = Seen(log)

        def on_check(check: Check) -> None:
            console.info(f"  {check.status.value:5} {check.check}  {check.detail[:150]}")
            writer.add(check, phases=dict(seen.phases), gpus=seen.gpus,
                       where=place(seen.gpus, emulated=run.emulated), metrics=dict(seen.metrics))
            log.raise_if_full()

        emulated = ", emulated" if run.emulated else ""
        console.info(f"smoke {run.cell.id}, level {run.level}{emulated}")
        _level(run, seen, on_check)
        return writer.finish(diagnosis=_diagnosis(run, writer.record.checks, log))


def _level(run: Run, seen: Seen, on_check: OnCheck) -> None:
    if run.level == "2":
        serve_and_ask(run.engine, run.reference, run.cell, run.recipe, run.workspace.root, seen,
                      on_check, emulated=run.emulated, model=run.model)
        return
    assert run.model
    checks = (look if run.level == "1a" else generate)(
        run.engine, run.reference, run.cell, as_patched(run.lock, run.image.labels), run.model,
        seen.log, on_check)
    if run.level == "1a":
        on_check(_gate_agrees(run, checks))


def _gate_agrees(run: Run, checks: Sequence[Check]) -> Check:
    """Hold the gate's word against what the loader did in the image."""
    base = own_base(run.workspace, run.cell)
    if not base.digest:
        return Check(check=NAME, status=Status.NOT_APPLICABLE, detail="the base is not locked")
    store = Store(run.workspace.cache)
    report = gate_cell(run.workspace, run.cell, run.lock, base,
                       lambda: fetch_lock(run.lock, store, run.cell.indexes).paths)
    return agreement(report.findings, checks)


def _diagnosis(run: Run, checks: Sequence[Check], lines: Sequence[str]) -> tuple[str, ...]:
    """Name the known failure when a check failed; what the versions rule out is said as such."""
    if all(check.status not in (Status.FAIL, Status.FLAKY) for check in checks):
        return ()
    versions = {} if run.foreign else {wheel.name: wheel.version for wheel in run.lock.wheels}
    return tuple(str(item) for item in diagnose(lines, load(), checks, versions))
