"""The patch stage of a build: locked wheels and the series for each into what the layers need.

``judge -> (a required patch does not apply: stop) -> revision -> overlay, or a repacked wheel``
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from builder import labels as label
from builder.errors import PatchError
from builder.fetch.wheels import FetchedWheels
from builder.files import disk_errors, sha256_file
from builder.layers.assemble import Overlay, no_overlay
from builder.locking.lock import LockedWheel
from builder.patches.overlay import overlay_of
from builder.patches.revision import Revision, patched_version
from builder.patches.status import (
    Candidate,
    Standing,
    Verdict,
    applied_tags,
    judge,
    require,
    series_key,
)
from builder.patches.wheel import write_wheel
from builder.patches.wheel_tree import open_tree
from builder.removal import remove_file
from builder.store.content_store import Store

Series = Mapping[str, Sequence[Candidate]]  # by the name of the wheel that it is for


@dataclass(frozen=True)
class Patched:
    """A cell with its patches: the wheels that the layers are made of, with their lock.

    ``versions`` are those of the patched distributions, ``warnings`` say which patches were left
    out and why, ``overlay`` goes to ``make_layers``.
    """

    wheels: FetchedWheels
    overlay: Overlay = no_overlay
    versions: Mapping[str, str] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def labels(self) -> dict[str, str]:
        """Return the image labels that tell the patched versions."""
        return {label.PATCHED + name: version for name, version in sorted(self.versions.items())}


def series_digest(series: Series) -> str:
    """Return the digest of all patches, for an image's inputs; empty where there is none."""
    keys = [series_key(name, candidates) for name, candidates in sorted(series.items())
            if candidates]
    return hashlib.sha256("".join(keys).encode()).hexdigest() if keys else ""


def apply_series(wheels: FetchedWheels, series: Series, store: Store, *, repack: bool = False
                 ) -> Patched:
    """Judge and apply every series; raises PatchError when a required patch does not apply.

    ``repack`` makes every patched wheel a wheel file of its own, for a stage that reads wheels.
    """
    lock = wheels.lock
    revisions: dict[str, Revision] = {}
    verdicts: list[Verdict] = []
    warnings: list[str] = []
    for name, candidates in sorted(series.items()):
        wheel = lock.wheel(name)
        if wheel is None:
            raise PatchError(f"patches are declared for {name}, but the lock has no wheel of it",
                             where=lock.cell, next_step="restrict them in the matrix "
                             "(`images`, `versions`)")
        found, revision = revise(wheel, wheels.paths[wheel], candidates)
        warnings += require(lock.cell, candidates, found)
        verdicts += found
        if revision:
            revisions[name] = revision
    repacked = {name: _repack(revision, wheels, store)
                for name, revision in revisions.items() if repack or revision.deletes}
    over = {name: revision for name, revision in revisions.items() if name not in repacked}
    return Patched(_replaced(wheels, repacked), overlay_of(over, store) if over else no_overlay,
                   {name: revision.version for name, revision in revisions.items()},
                   tuple(verdicts), tuple(warnings))


def revise(wheel: LockedWheel, path: Path, series: Sequence[Candidate]
           ) -> tuple[tuple[Verdict, ...], Revision | None]:
    """Return the verdicts of a series on a wheel, and the revision, if anything changes."""
    with open_tree(path) as tree:
        judged = judge(tree, series)
    tags = applied_tags(series, judged.verdicts)
    if not tags:
        return judged.verdicts, None
    applied = [candidate for candidate, verdict in zip(series, judged.verdicts, strict=True)
               if verdict.standing is Standing.APPLIES]
    provenance = {"wheel": {"file": wheel.file, "sha256": wheel.sha256},
                  "patches": [_origin(candidate) for candidate in applied]}
    return judged.verdicts, Revision(wheel, patched_version(wheel.version, tags), judged.changes,
                                     provenance)


def patched_wheel(revision: Revision, source: Path, folder: Path) -> Path:
    """Write the patched wheel file into ``folder``, complete or not at all; return its path."""
    target = folder / revision.file
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with disk_errors(folder, "while a patched wheel was written"):
            write_wheel(source, temporary, revision)
            temporary.replace(target)
    finally:
        remove_file(temporary, folder)
    return target


def _origin(candidate: Candidate) -> dict[str, object]:
    assert candidate.diff is not None
    return {"id": candidate.id, "sha256": hashlib.sha256(candidate.diff).hexdigest(),
            "undo": candidate.undo, "include": list(candidate.include),
            "exclude": list(candidate.exclude)}


def _repack(revision: Revision, wheels: FetchedWheels, store: Store
            ) -> tuple[LockedWheel, Path]:
    """Put the patched wheel into the store as a wheel of its own."""
    with store.temporary("wheel") as folder:
        folder.mkdir()
        path = patched_wheel(revision, wheels.paths[revision.wheel], folder)
        wheel = revision.wheel.model_copy(update={
            "version": revision.version, "file": revision.file, "sha256": sha256_file(path),
            "size": path.stat().st_size})
        return wheel, store.find_wheel(wheel) or store.add_wheel(wheel, path)


def _replaced(wheels: FetchedWheels, repacked: Mapping[str, tuple[LockedWheel, Path]]
              ) -> FetchedWheels:
    """Return the wheels with the repacked ones in their originals' places."""
    if not repacked:
        return wheels
    members = tuple(repacked[wheel.name][0] if wheel.name in repacked else wheel
                    for wheel in wheels.lock.wheels)
    paths = {wheel: path for wheel, path in wheels.paths.items() if wheel.name not in repacked}
    return replace(wheels, lock=wheels.lock.model_copy(update={"wheels": members}),
                   paths={**paths, **dict(repacked.values())})
