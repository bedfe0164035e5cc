"""A patched distribution's name for itself: version, METADATA, RECORD and provenance.

A patched wheel is a new wheel: its local version names the patches (``0.20.2+sy.38909``), so that
``pip list``, a lock and a label never take it for the published one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from builder import labels as label
from builder.errors import PatchError, command
from builder.layers.distinfo import Row, fingerprint
from builder.locking.lock import Lock, LockedWheel
from builder.patches.apply import Blob

PROVENANCE = "sparkyard-patches.json"
_FIELD = re.compile(rb"^Version:.*$", re.MULTILINE)


@dataclass(frozen=True)
class Revision:
    """A wheel, its patched version, what changes in it (None: deleted), and where that is from.

    ``provenance`` is JSON: the published wheel and every patch with its hashes. ``platform`` takes
    the place of ``any`` in the file name of a wheel that has compiled files now.
    """

    wheel: LockedWheel
    version: str
    changes: Mapping[str, Blob | None]
    provenance: Mapping[str, object]
    platform: str = ""

    @property
    def key(self) -> list[object]:
        """Return all that the patched bytes depend on."""
        return [self.wheel.sha256, self.wheel.file, self.version, self.note.decode(), [
            [path, fingerprint([blob.data]) if blob else None, bool(blob and blob.executable)]
            for path, blob in sorted(self.changes.items())]]

    @property
    def note(self) -> bytes:
        """Return the provenance file."""
        return (json.dumps(self.provenance, indent=1, sort_keys=True) + "\n").encode()

    @property
    def deletes(self) -> bool:
        """Say whether files go away, which no layer over the wheel's own can do."""
        return None in self.changes.values()

    @property
    def file(self) -> str:
        """Return the name of the patched wheel file."""
        name, _, tags = self.wheel.file.split("-", 2)
        if self.platform and tags.endswith("-any.whl"):
            tags = f"{tags.removesuffix('any.whl')}{self.platform}.whl"
        return f"{name}-{self.version}-{tags}"

    def renamed(self, path: str) -> str:
        """Return a path of the published wheel as the patched one has it."""
        for end in (".dist-info/", ".data/"):
            top, found, rest = path.partition(end)
            if found and "/" not in top and "-" in top:
                return f"{top.rpartition('-')[0]}-{self.version}{end}{rest}"
        return path

    def metadata(self, text: bytes) -> bytes:
        """Return METADATA with the patched version; raises PatchError where it has none."""
        head, blank, body = text.partition(b"\n\n")
        changed, count = _FIELD.subn(f"Version: {self.version}".encode(), head, count=1)
        if count != 1:
            raise PatchError("the wheel's METADATA has no version", where=self.wheel.file,
                             next_step="lock another version of the wheel")
        return changed + blank + body

    def rows(self, record: Sequence[Row], fresh: Mapping[str, bytes],
             gone: frozenset[str] = frozenset()) -> list[Row]:
        """Return RECORD's rows: paths renamed, ``fresh`` files with their own, RECORD left out."""
        kept = {self.renamed(path): (digest, size) for path, digest, size in record
                if path not in gone}
        kept.update({path: (fingerprint([data]), str(len(data))) for path, data in fresh.items()})
        return [(path, digest, size) for path, (digest, size) in kept.items()
                if not path.endswith(".dist-info/RECORD")]


def patched_version(version: str, tags: Sequence[str]) -> str:
    """Return ``0.20.2+cu130.sy.38909``: a version with the patches in its local part."""
    parts = [part for tag in tags for part in re.split(r"[^a-z0-9]+", tag.lower()) if part]
    found = Version(version)
    local = ".".join([*([found.local] if found.local else []), "sy", *parts])
    return str(Version(f"{found.public}+{local}"))  # a commit 00123456 is 123456 there


def as_patched(lock: Lock, labels: Mapping[str, str]) -> Lock:
    """Return the lock with the versions that an image's labels give its patched distributions.

    Raises PatchError for a label that is no patched form of what is locked.
    """
    versions = {key.removeprefix(label.PATCHED): value for key, value in labels.items()
                if key.startswith(label.PATCHED)}
    for name, version in versions.items():
        wheel = lock.wheel(name)
        if wheel is None or not _derived(version, wheel.version):
            raise PatchError(f"the image's label says {name} {version}, but the lock has "
                             f"{wheel.version if wheel else 'none'}", where=lock.cell,
                             next_step="run " + command("build", lock.cell))
    return lock.model_copy(update={"wheels": tuple(
        wheel.model_copy(update={"version": versions.get(wheel.name, wheel.version)})
        for wheel in lock.wheels)})


def _derived(version: str, locked: str) -> bool:
    """Say whether a version is the locked one with more in its local part, and nothing else."""
    normal = str(Version(locked))
    return version.startswith(f"{normal}." if "+" in normal else f"{normal}+")
