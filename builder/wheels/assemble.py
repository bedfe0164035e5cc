"""The published wheel with the files that were compiled: a wheel of its own, made byte for byte.

Members that stay are copied still compressed, new ones are stored plain (``builder.patches.wheel``
does both), so the same compile put into the same wheel gives the same file on any machine. The
local version carries patches, architecture and key; ``sparkyard-wheels.json`` in the metadata says
what was compiled from what. Times and cache hits stay out of it: they are never the same twice.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from builder.errors import IntegrityError, VerdictError, command
from builder.files import disk_errors, sha256_file
from builder.locking.lock import LockedWheel
from builder.patches.apply import Blob
from builder.patches.revision import Revision, patched_version
from builder.patches.wheel import write_wheel
from builder.store.content_store import Store
from builder.wheels.key import short
from builder.wheels.order import Order, Rebuilt

NOTE = "sparkyard-wheels.json"
COMPILED = "compiled"  # the index of a wheel that no index serves: it is compiled or put together


def compiled_version(order: Order) -> str:
    """Return the local version: ``0.20.2+sy.35568.121a.k1f0c2d3e``."""
    tags = [patch.tag for patch in order.patches]
    return patched_version(order.version, [*tags, *([order.recipe.tag] if order.recipe.tag else []),
                                           short(order.key)])


def put_together(order: Order, rebuilt: Rebuilt, folder: Path, store: Store) -> LockedWheel:
    """Write the wheel of a compile into the store; return it as a lock has it.

    ``folder`` holds the compiled files. Raises IntegrityError for a file that is not the one that
    was compiled, VerdictError for one that the published wheel does not have.
    """
    for file in rebuilt.files:
        actual = sha256_file(folder / file.path)
        if actual != file.sha256:
            raise IntegrityError(file.path, expected=file.sha256, actual=actual)
    wheel, source = _origin(order, rebuilt, folder)
    changes = _changes(order, rebuilt, folder, source)
    revision = Revision(wheel, compiled_version(order), changes, provenance(order, rebuilt))
    with store.temporary("wheel") as target, \
            disk_errors(store.root, "while a wheel was put together"):
        write_wheel(source, target, revision, NOTE)
        made = LockedWheel(name=order.recipe.name, version=revision.version, file=revision.file,
                           sha256=sha256_file(target), size=target.stat().st_size, index=COMPILED)
        if not store.find_wheel(made):
            store.add_wheel(made, target)
    return made


def provenance(order: Order, rebuilt: Rebuilt) -> dict[str, object]:
    """Return what the wheel says of itself, as JSON values."""
    published, facts = order.published, rebuilt.provenance
    source = order.recipe.sources[order.version]
    return {
        "key": order.key, "gpu": order.cell.gpu, "architectures": list(order.architectures),
        "targets": list(order.targets),
        "published": None if published is None else {
            "file": published[0].file, "sha256": published[0].sha256},
        "source": {"file": source.file, "sha256": source.sha256},
        "patches": [{"name": patch.name, "sha256": patch.sha256, "files": list(patch.files)}
                    for patch in order.patches],
        "torch": order.torch[0].version if order.torch else None,
        "base": order.base.image_id,
        "files": {file.path: {"sha256": file.sha256, "target": file.target}
                  for file in rebuilt.files},
        "compiled": {"mode": facts.mode, "machine": facts.machine,
                     "compilers": dict(facts.compilers), "tools": facts.tools},
    }


def _origin(order: Order, rebuilt: Rebuilt, folder: Path) -> tuple[LockedWheel, Path]:
    """Return the wheel that is rewritten: the published one, or the compiled whole package."""
    if order.targets:
        if order.published is None:
            raise VerdictError("there is no published wheel to put the compiled files into",
                               where=order.title, next_step="lock the cell: "
                               + command("lock", order.cell.id))
        return order.published
    if len(rebuilt.files) != 1 or not rebuilt.files[0].path.endswith(".whl"):
        raise VerdictError("a build of the whole package must leave one wheel", where=order.title,
                           next_step=f"correct wheels/{order.recipe.name}.toml")
    file = rebuilt.files[0]
    name = Path(file.path).name
    return (LockedWheel(name=order.recipe.name, version=name.split("-")[1], file=name,
                        sha256=file.sha256, size=file.size, index=COMPILED), folder / file.path)


def _changes(order: Order, rebuilt: Rebuilt, folder: Path, source: Path) -> dict[str, Blob | None]:
    if not order.targets:
        return {}
    with zipfile.ZipFile(source) as archive:
        modes = {item.filename: item.external_attr >> 16 for item in archive.infolist()}
    unknown = [file.path for file in rebuilt.files if file.path not in modes]
    if unknown:
        raise VerdictError(f"the published wheel has no {', '.join(unknown)}", where=source.name,
                           next_step=f"correct the files of wheels/{order.recipe.name}.toml")
    return {file.path: Blob((folder / file.path).read_bytes(), bool(modes[file.path] & 0o111))
            for file in rebuilt.files}
