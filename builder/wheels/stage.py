"""From a decision to a wheel in the store: found, or compiled once, and put together.

``decision -> job (native patches, key) -> kept here? -> in the registry? -> compile -> wheel``
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from builder import console
from builder.errors import IntegrityError, NetworkError, VerdictError
from builder.fetch.wheels import FetchedWheels, fetch_lock
from builder.indexes.settings import COMPILED
from builder.locking.base_lock import LockedBase
from builder.locking.findings import counted
from builder.locking.lock import Lock, LockedWheel
from builder.matrix.cells import Cell
from builder.patches.status import Candidate
from builder.store.content_store import Store
from builder.wheels import artifact
from builder.wheels.assemble import WheelRecord, put_together, record_of
from builder.wheels.decision import Decision
from builder.wheels.kept import Kept
from builder.wheels.key import order_key
from builder.wheels.native import NativePatches, compiled_files, native_patches
from builder.wheels.order import WHOLE, Compiler, Order, Rebuilt, RebuiltFile
from builder.wheels.policy import source_version
from builder.wheels.recipe import Recipe
from builder.wheels.sources import Archive, external_archives, fetch_files, source_archive

SHOWN = 5  # files in a message


class Origin(StrEnum):
    """Where the compiled files of a job come from."""

    COMPILED = "compiled"
    KEPT = "kept here"
    REGISTRY = "the registry"


@dataclass(frozen=True)
class Job:
    """One decision with all that its key depends on; ``lock`` has published wheels only."""

    cell: Cell
    lock: Lock
    decision: Decision
    recipe: Recipe
    base: LockedBase
    native: NativePatches
    key: str

    @property
    def version(self) -> str:
        """Return the version of the sources."""
        return source_version(self.decision.wheel.version)

    @property
    def torch(self) -> LockedWheel | None:
        """Return the torch that is compiled against."""
        return None if self.recipe.name == "torch" else self.lock.wheel("torch")

    def makes(self, rebuilt: Rebuilt) -> bool:
        """Say whether compiled files are those of the job's targets, by their names alone."""
        if not self.decision.targets:
            return [file.target for file in rebuilt.files] == [WHOLE]
        return not self.strange(rebuilt)

    def strange(self, rebuilt: Rebuilt) -> list[str]:
        """Return the files that the targets do not make, and those of theirs that are missing.

        Which files there are follows from the recipe, whatever stands beside them.
        """
        names = self.decision.targets
        wanted = {(file, name) for name in names for file in self.recipe.targets[name].files}
        given = {(file.path, file.target) for file in rebuilt.files}
        return sorted({path for path, _ in given ^ wanted})


@dataclass(frozen=True)
class Outcome:
    """What became of a job: the wheel as it is locked, and how its files were made."""

    job: Job
    wheel: LockedWheel
    rebuilt: Rebuilt
    origin: Origin


def job_for(cell: Cell, lock: Lock, decision: Decision, recipe: Recipe, base: LockedBase,
            series: Sequence[Candidate], compiler: Compiler, store: Store) -> Job:
    """Return the job of a decision; fetches the sources where a patch changes them."""
    version = source_version(decision.wheel.version)
    native = NativePatches()
    if any(compiled_files(each) for each in series):
        archive = source_archive(recipe, version)
        native = native_patches(fetch_files(cell.id, [archive], store, cell.indexes)[archive],
                                series)
    torch = None if recipe.name == "torch" else lock.wheel("torch")
    key = order_key(cell, recipe, version, decision.targets, native.changes, torch, base,
                    compiler.fingerprint(recipe, cell))
    return Job(cell, lock, decision, recipe, base, native, key)


def run_job(registry: str, job: Job, compiler: Compiler, store: Store, *,
            jobs: int | None = None, again: bool = False) -> Outcome:
    """Return the wheel of a job; compiles only what neither this machine nor the registry has.

    With ``again`` it is compiled although it is there, and compared. Raises what the compiler
    raises, VerdictError where a second compile differs, NetworkError for sources that cannot be
    had, DiskError.
    """
    kept = Kept(store)
    found, origin = kept.find(job.key, job.makes), Origin.KEPT
    if found is None:
        found = _pulled(registry, job.key, kept, store, lambda given: _refuse_strange(job, given))
        origin = Origin.REGISTRY
    published = fetch_files(job.cell.id, [job.decision.wheel], store, job.cell.indexes)
    order = _order(job, published, store, jobs)
    if found is None:
        found, origin = _compiled(order, job, compiler, kept, store), Origin.COMPILED
    elif again:
        _compare(found[0], order, job, compiler, store)
    rebuilt, folder = found
    record = record_of(order, rebuilt)
    wheel = kept.wheel_of(record, store)
    if wheel is None:
        wheel = put_together(record, published[job.decision.wheel], folder, store)
        kept.keep_record(wheel.sha256, record)
    _share(registry, rebuilt, folder, wheel, record, store)
    return Outcome(job, wheel, rebuilt, origin)


def _refuse_strange(job: Job, rebuilt: Rebuilt) -> None:
    """Refuse files that the targets do not make: whoever may write to a registry names any."""
    if not job.makes(rebuilt):
        strange = ", ".join(job.strange(rebuilt)[:SHOWN])
        raise VerdictError(f"what the registry has under this key is not what {job.recipe.name}'s "
                           f"targets make: {strange}", where=job.key, next_step="remove the tag "
                           f"compiled-{job.key[:12]}… from the registry, and compile again")


def _order(job: Job, paths: Mapping[LockedWheel, Path], store: Store, jobs: int | None) -> Order:
    """Return the order; its sources need not lie in the store yet."""
    archive, torch = source_archive(job.recipe, job.version), job.torch
    external = external_archives(job.recipe)
    return Order(
        key=job.key, cell=job.cell, recipe=job.recipe, version=job.version,
        targets=job.decision.targets, source=store.wheel_path(archive), base=job.base,
        changes=job.native.changes, patches=job.native.applied,
        external={name: store.wheel_path(each) for name, each in external.items()},
        torch=(torch, store.wheel_path(torch)) if torch else None,
        published=(job.decision.wheel, paths[job.decision.wheel]), jobs=jobs)


def _compiled(order: Order, job: Job, compiler: Compiler, kept: Kept, store: Store
              ) -> tuple[Rebuilt, Path]:
    _fetch(job, store)
    console.info(f"compiling {order.title}")
    with store.temporary("output") as output:
        output.mkdir()
        rebuilt = compiler.compile(order, output)
        folder = kept.keep(rebuilt, output)
    return rebuilt, folder


def _fetch(job: Job, store: Store) -> None:
    """Fetch all that an order names."""
    needed: list[LockedWheel | Archive] = [source_archive(job.recipe, job.version),
                                           *external_archives(job.recipe).values()]
    fetch_files(job.cell.id, [*needed, *([job.torch] if job.torch else [])], store,
                job.cell.indexes)


def _compare(before: Rebuilt, order: Order, job: Job, compiler: Compiler, store: Store) -> None:
    """Compile once more, and name the files that are others; nothing of it is kept."""
    _fetch(job, store)
    console.info(f"compiling {order.title} again, to compare")
    with store.temporary("output") as output:
        output.mkdir()
        made = compiler.compile(replace(order, fresh=True), output)
    now = {file.path: file.sha256 for file in made.files}
    differing = [f"  {file.path}: sha256 {file.sha256[:16]}, now {now.get(file.path, '')[:16]}"
                 for file in before.files if now.get(file.path) != file.sha256]
    if differing:
        raise VerdictError("equal inputs gave other bytes\n" + "\n".join(differing),
                           where=order.title, next_step="make the compile reproducible: no time, "
                           "path or random name may enter the files")
    console.info(f"{counted(len(before.files), 'file')} compared: the same, byte for byte")


def _pulled(registry: str, key: str, kept: Kept, store: Store,
            check: Callable[[Rebuilt], object] = lambda _given: None
            ) -> tuple[Rebuilt, Path] | None:
    with store.temporary("output") as output:
        output.mkdir()
        rebuilt = artifact.pull(registry, key, output, check)
        return None if rebuilt is None else (rebuilt, kept.keep(rebuilt, output))


def _share(registry: str, rebuilt: Rebuilt, folder: Path, wheel: LockedWheel, record: WheelRecord,
           store: Store) -> None:
    """Push what was compiled, and how the wheel is made; a registry that is away stops nobody."""
    journals = store.root / "uploads"
    try:
        artifact.push(registry, rebuilt, folder, journals)
        artifact.push_record(registry, wheel.sha256, record, journals)
    except NetworkError as error:
        console.warn(f"what was compiled stays on this machine: {error.what}")


def provide(registry: str, cell: Cell, lock: Lock, store: Store) -> None:
    """Put the compiled wheels of a lock into the store, from this machine or the registry.

    What cannot be had is left to the fetch, which says what to do. Raises IntegrityError where
    what was put together is another wheel than the locked one.
    """
    for entry in lock.compiled:
        wheel = lock.wheel(entry.name)
        if wheel is None or wheel.index != COMPILED or store.find_wheel(wheel):
            continue
        kept = Kept(store)
        record = kept.record(wheel.sha256) or artifact.pull_record(registry, wheel.sha256)
        found = record and (kept.find(entry.key) or _pulled(registry, entry.key, kept, store))
        if not record or not found or _paths(found[0].files) != _paths(record.files):
            continue
        published = LockedWheel.model_validate(entry.model_dump(
            include=set(LockedWheel.model_fields)))
        paths = fetch_files(cell.id, [published], store, cell.indexes)
        made = put_together(record, paths[published], found[1], store)
        if made != wheel:
            raise IntegrityError(wheel.file, expected=wheel.sha256, actual=made.sha256)
        kept.keep_record(wheel.sha256, record)


def _paths(files: Sequence[RebuiltFile]) -> set[str]:
    return {file.path for file in files}


def fetch_compiled(registry: str, cell: Cell, lock: Lock, store: Store) -> dict[LockedWheel, Path]:
    """Return where the compiled wheels of a lock lie; raises NetworkError where one is missing."""
    provide(registry, cell, lock, store)
    return fetch_files(cell.id, [wheel for wheel in lock.wheels if wheel.index == COMPILED], store,
                       cell.indexes)


def fetch_cell(registry: str, cell: Cell, lock: Lock, store: Store) -> FetchedWheels:
    """Return every wheel of a lock; compiled ones are put together here where they are missing."""
    provide(registry, cell, lock, store)
    return fetch_lock(lock, store, cell.indexes)
