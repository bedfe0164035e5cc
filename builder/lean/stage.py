"""The lean stage of a build: wheels in, their trimmed forms out, each made once and kept.

What was made is found again by the wheel, the GPU and the rules, so that a second run reads
nothing, and a newer wheel costs only itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import BoundedSemaphore

from pydantic import Field

from builder import console
from builder import labels as label
from builder.fetch.wheels import FetchedWheels
from builder.files import disk_errors, sha256_file, write_text
from builder.lean.rules import version
from builder.lean.wheel import trim_wheel
from builder.locking.lock import LockedWheel
from builder.model import Frozen
from builder.store.content_store import Store

WORKERS = 2  # wheels that are trimmed at once; each takes up to 250 MB of memory
FLUSHING = 2  # finished wheels that wait meanwhile until the disk has them


class Saved(Frozen):
    """What trimming one wheel came to: unpacked bytes before and after, and bytes by rule.

    ``wheel`` is None where there was nothing to take.
    """

    name: str
    before: int
    after: int
    by_rule: Mapping[str, int] = Field(default_factory=dict)
    wheel: LockedWheel | None = None

    @property
    def saved(self) -> int:
        """Return the bytes that went."""
        return self.before - self.after


@dataclass(frozen=True)
class LeanClosure:
    """A closure for one GPU: the lock and wheels that layers are made of, and the savings."""

    wheels: FetchedWheels
    saved: tuple[Saved, ...] = ()

    @property
    def labels(self) -> dict[str, str]:
        """Return the image labels that tell the trimmed versions."""
        return {label.PATCHED + each.name: each.wheel.version for each in self.saved if each.wheel}


def trim_closure(wheels: FetchedWheels, gpu: str, store: Store) -> LeanClosure:
    """Return the closure with every wheel trimmed for ``gpu``; raises DiskError."""
    lock, ordered = wheels.lock, sorted(wheels.lock.wheels, key=lambda wheel: -wheel.size)
    workers = min(WORKERS, os.cpu_count() or 1)
    at_work = BoundedSemaphore(workers)
    with console.progress("trim", float(sum(wheel.size for wheel in ordered))) as meter, \
            ThreadPoolExecutor(workers + FLUSHING) as pool:
        def trim(wheel: LockedWheel) -> Saved:
            saved = _trim(wheel, wheels.paths[wheel], gpu, store, at_work)
            meter.advance(wheel.size, wheel.name)
            return saved

        saved = dict(zip(ordered, pool.map(trim, ordered), strict=True))
    members = tuple(saved[wheel].wheel or wheel for wheel in lock.wheels)
    paths = {member: store.wheel_path(member) if saved[wheel].wheel else wheels.paths[wheel]
             for wheel, member in zip(lock.wheels, members, strict=True)}
    trimmed = FetchedWheels(lock.model_copy(update={"wheels": members}), paths)
    return LeanClosure(trimmed, tuple(saved[wheel] for wheel in lock.wheels))


def _trim(wheel: LockedWheel, source: Path, gpu: str, store: Store, at_work: BoundedSemaphore
          ) -> Saved:
    index = store.root / "lean" / f"{_key(wheel, gpu)}.json"
    known = _known(index)
    if known and (known.wheel is None or store.find_wheel(known.wheel)):
        return known
    with store.temporary("wheel") as folder, disk_errors(store.root, "while wheels were trimmed"):
        folder.mkdir()
        target = folder / "trimmed.whl"
        with at_work:
            saved = _made(wheel, source, target, gpu)
        if saved.wheel and not store.find_wheel(saved.wheel):
            store.add_wheel(saved.wheel, target)
    write_text(index, saved.model_dump_json() + "\n")
    return saved


def _made(wheel: LockedWheel, source: Path, target: Path, gpu: str) -> Saved:
    """Write the trimmed wheel to ``target``, where there is something to take."""
    trimmed = trim_wheel(wheel, source, target, gpu, target.parent)
    if trimmed is None:
        return Saved(name=wheel.name, before=0, after=0)
    revision, savings = trimmed
    lean = wheel.model_copy(update={
        "version": revision.version, "file": revision.file,
        "sha256": sha256_file(target), "size": target.stat().st_size})
    return Saved(name=wheel.name, before=savings.before, after=savings.after,
                 by_rule=dict(savings.by_rule), wheel=lean)


def _key(wheel: LockedWheel, gpu: str) -> str:
    inputs = json.dumps([version(), gpu, wheel.sha256, wheel.file, wheel.version])
    return hashlib.sha256(inputs.encode()).hexdigest()


def _known(index: Path) -> Saved | None:
    try:
        return Saved.model_validate_json(index.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # not there, or not whole: the wheel is trimmed again
