"""The published wheel with the files that were compiled: a wheel of its own, made byte for byte.

Members that stay are copied still compressed, new ones are stored plain (``builder.patches.wheel``
does both), so the same compile put into the same wheel gives the same file on any machine. The
local version carries patches, architecture and key; ``sparkyard-wheels.json`` in the metadata says
what was compiled from what. Times and cache hits stay out of it: they are never the same twice.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from builder.errors import IntegrityError, VerdictError
from builder.files import disk_errors, sha256_file
from builder.indexes.settings import COMPILED
from builder.locking.lock import LockedWheel
from builder.model import Frozen
from builder.patches.apply import Blob
from builder.patches.revision import Revision, patched_version
from builder.patches.wheel import info_of, write_wheel
from builder.store.content_store import Store
from builder.wheels.key import short
from builder.wheels.order import Order, Rebuilt, RebuiltFile

NOTE = "sparkyard-wheels.json"
_ANY = re.compile(rb"^(Tag: \S+-)any\b", re.MULTILINE)
_PURE = re.compile(rb"^Root-Is-Purelib: true\b", re.MULTILINE)


class WheelRecord(Frozen):
    """All that puts a compiled wheel together again, beside the published wheel and the files.

    ``published`` is None for a whole package, whose one file is a wheel; ``new`` are files that the
    published wheel does not have; ``note`` is what the wheel says of itself. ``platform``
    is that of new files in a wheel that was for any.
    """

    package: str
    version: str
    key: str
    published: LockedWheel | None
    files: tuple[RebuiltFile, ...]
    note: Mapping[str, Any]
    new: tuple[str, ...] = ()
    platform: str = ""


def record_of(order: Order, rebuilt: Rebuilt) -> WheelRecord:
    """Return how the wheel of a compile is put together."""
    published = order.published[0] if order.published and order.targets else None
    new = tuple(file.path for file in rebuilt.files
                if file.target and order.recipe.targets[file.target].new)
    return WheelRecord(package=order.recipe.name, version=compiled_version(order), key=order.key,
                       published=published, files=rebuilt.files, note=provenance(order, rebuilt),
                       new=new, platform=_platform(order) if new else "")


def _platform(order: Order) -> str:
    """Return the platform of a wheel with files that were compiled on the order's base."""
    glibc = order.base.glibc.replace(".", "_")
    return f"manylinux_{glibc}_{order.cell.machine}" if glibc else f"linux_{order.cell.machine}"


def compiled_version(order: Order) -> str:
    """Return the local version: ``0.20.2+sy.35568.121a.k1f0c2d3e``."""
    tags = [patch.tag for patch in order.patches]
    version = order.published[0].version if order.published else order.version
    return patched_version(version, [*tags, *([order.recipe.tag] if order.recipe.tag else []),
                                     short(order.key)])


def provenance(order: Order, rebuilt: Rebuilt) -> dict[str, Any]:
    """Return what the wheel says of itself, as JSON values."""
    published, facts = order.published, rebuilt.provenance
    source = order.recipe.sources[order.version]
    return {
        "key": order.key, "gpu": order.cell.gpu, "architectures": list(order.architectures),
        "targets": list(order.targets),
        "published": None if published is None else {
            "file": published[0].file, "sha256": published[0].sha256},
        "source": {"file": source.file, "sha256": source.sha256,
                   **(source.git.model_dump(mode="json") if source.git else {})},
        "patches": [{"name": patch.name, "sha256": patch.sha256, "files": list(patch.files)}
                    for patch in order.patches],
        "torch": order.torch[0].version if order.torch else None,
        "base": order.base.image_id,
        "files": {file.path: {"sha256": file.sha256, "target": file.target}
                  for file in rebuilt.files},
        "compiled": {"mode": facts.mode, "machine": facts.machine,
                     "compilers": dict(facts.compilers), "tools": facts.tools},
    }


def put_together(record: WheelRecord, published: Path | None, folder: Path, store: Store
                 ) -> LockedWheel:
    """Write the wheel into the store; return it as a lock has it.

    ``folder`` holds the compiled files, ``published`` is where the published wheel lies. Raises
    IntegrityError for a file that is not the one that was compiled, VerdictError for one that the
    published wheel does not have.
    """
    for file in record.files:
        actual = sha256_file(folder / file.path)
        if actual != file.sha256:
            raise IntegrityError(file.path, expected=file.sha256, actual=actual)
    wheel, source = _origin(record, published, folder)
    changes = _changes(record, folder, source) if record.published else {}
    revision = Revision(wheel, record.version, changes, record.note, record.platform)
    if revision.file != replace(revision, platform="").file:
        revision = replace(revision, changes={**changes, **_for_platform(source, revision)})
    with store.temporary("wheel") as target, \
            disk_errors(store.root, "while a wheel was put together"):
        write_wheel(source, target, revision, NOTE)
        made = LockedWheel(name=record.package, version=revision.version, file=revision.file,
                           sha256=sha256_file(target), size=target.stat().st_size, index=COMPILED)
        if not store.find_wheel(made):
            store.add_wheel(made, target)
    return made


def _for_platform(source: Path, revision: Revision) -> dict[str, Blob]:
    """Return WHEEL of a wheel that is for one platform now."""
    with zipfile.ZipFile(source) as archive:
        name = f"{info_of(archive, source.name)}/WHEEL"
        text = _ANY.sub(rb"\g<1>" + revision.platform.encode(), archive.read(name))
    return {revision.renamed(name): Blob(_PURE.sub(b"Root-Is-Purelib: false", text))}


def _origin(record: WheelRecord, published: Path | None, folder: Path
            ) -> tuple[LockedWheel, Path]:
    """Return the wheel that is rewritten: the published one, or the compiled whole package."""
    if record.published is not None:
        assert published is not None
        return record.published, published
    if len(record.files) != 1 or not record.files[0].path.endswith(".whl"):
        raise VerdictError("a build of the whole package must leave one wheel",
                           where=record.package, next_step=f"correct wheels/{record.package}.toml")
    file = record.files[0]
    name = Path(file.path).name
    return (LockedWheel(name=record.package, version=name.split("-")[1], file=name,
                        sha256=file.sha256, size=file.size, index=COMPILED), folder / file.path)


def _changes(record: WheelRecord, folder: Path, source: Path) -> dict[str, Blob | None]:
    with zipfile.ZipFile(source) as archive:
        modes = {item.filename: item.external_attr >> 16 for item in archive.infolist()}
    unknown = [file.path for file in record.files
               if file.path not in modes and file.path not in record.new]
    if unknown:
        raise VerdictError(f"the published wheel has no {', '.join(unknown)}", where=source.name,
                           next_step=f"correct the files of wheels/{record.package}.toml")
    return {file.path: Blob((folder / file.path).read_bytes(),
                            bool(modes.get(file.path, 0) & 0o111)) for file in record.files}
