"""One version judged: locked, built and smoke-tested in the cache, never in the checkout.

What keeps a version from being judged (no lock, a gate that refuses it, a build that fails) makes
it a skipped one. What is no fault of the version (network, disk, engine) ends the search, which
goes on from there when the same command runs again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from builder import console
from builder.bisection.derive import derived_workspace
from builder.bisection.search import Verdict
from builder.bisection.state import FOLDER, Question, Step
from builder.build import build
from builder.engine.client import Engine
from builder.errors import (
    HostError,
    LockError,
    PatchError,
    SparkyardError,
    UsageError,
    VerdictError,
)
from builder.indexes.settings import user_sources
from builder.locking.lock import Lock, load_for, lock_path, write_lock
from builder.locking.resolver import resolve
from builder.matrix.cells import Cell
from builder.patches.locking import lock_patches
from builder.patches.upstream import Hosting
from builder.recipes.compatibility import check_pin
from builder.recipes.models import Recipe
from builder.record.check import Status
from builder.record.models import Record, records_folder
from builder.record.writer import RecordWriter, interruptions_recorded
from builder.smoke.models import Run
from builder.smoke.record_start import start_record
from builder.smoke.run import perform
from builder.text import one_line
from builder.workspace import Workspace

SKIPS = (LockError, VerdictError, PatchError, UsageError)
NOTE = 160  # characters of a reason in the table


@dataclass(frozen=True)
class Judge:
    """What all versions share: checkout, engine, recipe and its cell."""

    workspace: Workspace
    engine: Engine
    question: Question
    recipe: Recipe
    cell: Cell
    model: Path | None

    def __call__(self, version: str) -> Step:
        """Judge one version; raises SparkyardError for a fault that is not the version's."""
        began = time.monotonic()
        try:
            workspace, cell, lock = self._locked(version)
            reference = build(workspace, cell, self.engine).plan.name
        except HostError:  # a missing program keeps every version from being judged
            raise
        except SKIPS as error:
            return _skipped(version, error, time.monotonic() - began)
        record, path = self._smoke(workspace, cell, lock, reference)
        return _judged(version, record, str(path.relative_to(self.workspace.cache)),
                       time.monotonic() - began)

    def _locked(self, version: str) -> tuple[Workspace, Cell, Lock]:
        """Return the version's cell and lock: the committed lock where there is a good one."""
        folder = self.workspace.cache / FOLDER / self.question.key / "locks"
        workspace, cell = derived_workspace(self.workspace, self.cell, version, folder)
        if cell.blocked:
            raise UsageError(f"blocked in the matrix: {cell.blocked.reason}",
                             where=cell.id, next_step=f"read {cell.blocked.link}")
        lock = _kept(cell, self.workspace.locks) or _kept(cell, folder)
        if lock is None:
            console.info(f"locking {cell.id} …")
            lock = lock_patches(cell, resolve(cell, user_sources()), (), workspace.root,
                                Hosting(user_sources(), workspace.cache), workspace.cache)
        if not lock_path(folder, cell).exists():
            write_lock(folder, lock)
        check_pin(self.recipe.model_copy(update={"pinned": None}), cell, lock)
        return workspace, cell, lock

    def _smoke(self, workspace: Workspace, cell: Cell, lock: Lock, reference: str
               ) -> tuple[Record, Path]:
        image = self.engine.inspect(reference)
        if image is None:
            raise VerdictError("the engine lost the image", where=reference,
                               next_step="run the same command again, which builds it anew")
        run = Run(workspace, self.engine, cell, lock, self.question.level, self.recipe, self.model,
                  reference, image)
        writer = RecordWriter(records_folder(workspace.cache), start_record(run))
        with interruptions_recorded(writer):
            return perform(run, writer), writer.path


def _kept(cell: Cell, folder: Path) -> Lock | None:
    try:
        return load_for(cell, folder)
    except LockError:
        return None


def _skipped(version: str, error: SparkyardError, seconds: float) -> Step:
    console.show_error(error)
    return Step(version=version, verdict=Verdict.SKIPPED, seconds=seconds,
                diagnosis=one_line(error.what, NOTE))


def _judged(version: str, record: Record, path: str, seconds: float) -> Step:
    failed = [check.check for check in record.checks if check.status in (Status.FAIL, Status.FLAKY)]
    named = [failure.name for failure in record.diagnosis if not failure.ruled_out]
    return Step(version=version, record=path, seconds=seconds,
                verdict=Verdict.GOOD if record.passed else Verdict.BAD,
                diagnosis=one_line("; ".join([*named, *failed]), NOTE))
