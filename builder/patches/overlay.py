"""A patched wheel as a small layer over the published one's own, kilobytes instead of gigabytes.

The layer holds the changed and added files with their bytecode. The wheel's ``.dist-info``, which
lies in the image's one environment layer, is replaced by one with the patched version, so that
``importlib.metadata`` finds the distribution once. Bytecode of the published sources that still
lies below is never used: it is checked against its source, which is another one now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from builder.errors import PatchError
from builder.files import disk_errors
from builder.layers.assemble import Overlay, key_of
from builder.layers.bytecode import BytecodeCompiler
from builder.layers.distinfo import fingerprint, parse, relative, render
from builder.layers.layer import LayerKind, WheelLayers
from builder.layers.wheel_contents import Layout
from builder.layers.wheel_layer import cached_path
from builder.patches.revision import PROVENANCE, Revision
from builder.store.content_store import Store, StoredLayer
from builder.tarball import File, content, in_memory, read_files, write_tar


def overlay_of(revisions: Mapping[str, Revision], store: Store) -> Overlay:
    """Return what puts the revisions, by wheel name, over the wheels' own pieces."""
    def overlay(published: WheelLayers, layout: Layout, compiler: BytecodeCompiler
                ) -> tuple[WheelLayers, StoredLayer] | None:
        revision = revisions.get(published.wheel.name)
        if revision is None:
            return None
        return make_overlay(published, revision, layout, store, compiler)
    return overlay


def make_overlay(published: WheelLayers, revision: Revision, layout: Layout, store: Store,
                 compiler: BytecodeCompiler) -> tuple[WheelLayers, StoredLayer]:
    """Return the published with the patched metadata, and the layer of its changed files.

    Both come from the store where the same patches were put over the same wheel before. Raises
    PatchError for a revision that deletes, and for a module that is no Python any more.
    """
    if revision.deletes:
        raise PatchError("a layer cannot delete a file of the layer below",
                         where=revision.wheel.file, next_step="repack the wheel instead")
    keys = [key_of(kind, layout.python, published.metadata.digest, *revision.key)
            for kind in ("overlay", "overlay metadata")]
    files, metadata = (store.find_layer(key) for key in keys)
    if files is None or metadata is None:
        sources = _sources(revision, layout)
        bytecode = _bytecode(sources, layout, compiler)
        entries = [*sources.values(), *bytecode]
        files = _stored(keys[0], entries, LayerKind.OVERLAY, revision, store)
        metadata = _stored(keys[1], _metadata(published, revision, entries, layout),
                           LayerKind.METADATA, revision, store)
    wheel = published.wheel.model_copy(update={"version": revision.version, "file": revision.file})
    return replace(published, wheel=wheel, metadata=metadata), files


def _sources(revision: Revision, layout: Layout) -> dict[str, File]:
    return {path: in_memory(f"{layout.site}/{path}", blob.data, executable=blob.executable)
            for path, blob in sorted(revision.changes.items()) if blob}


def _bytecode(sources: Mapping[str, File], layout: Layout, compiler: BytecodeCompiler
              ) -> list[File]:
    modules = [file for path, file in sources.items() if path.endswith(".py")]
    if not modules:
        return []
    compiled = compiler.compile([(f"/{file.path}", partial(content, file)) for file in modules])
    made = []
    for file, data in zip(modules, compiled, strict=True):
        if not data:
            raise PatchError("the patched file is not valid Python", where=file.path,
                             next_step="correct or remove the last patch that changes it")
        made.append(in_memory(cached_path(file.path, layout), data))
    return made


def _metadata(published: WheelLayers, revision: Revision, entries: list[File], layout: Layout
              ) -> list[File]:
    """Return the published wheel's installed metadata with the patched version and files."""
    found = {relative(file.path, layout): content(file)
             for file in read_files(published.metadata.path)}
    record = next(path for path in found if path.endswith(".dist-info/RECORD"))
    rows, folder = parse(found.pop(record)), record.partition("/")[0]
    fresh = {f"{folder}/METADATA": revision.metadata(found[f"{folder}/METADATA"]),
             f"{folder}/{PROVENANCE}": revision.note}
    files = {revision.renamed(path): data for path, data in {**found, **fresh}.items()}
    renamed = revision.renamed(record)
    own = {revision.renamed(path): data for path, data in fresh.items()}
    signed = {row[0]: row for row in revision.rows(rows, own)}
    for file in entries:
        path = relative(file.path, layout)
        signed[path] = path, fingerprint(file.read()), str(file.size)
    files[renamed] = render(signed.values(), renamed.partition("/")[0])
    return [in_memory(f"{layout.site}/{path}", data) for path, data in files.items()]


def _stored(key: str, entries: list[File], kind: LayerKind, revision: Revision, store: Store
            ) -> StoredLayer:
    with disk_errors(store.root, "while a patch was laid over its wheel"), \
            store.temporary("layer") as path:
        tar = write_tar(path, entries)
        return store.add_layer(key, tar.path, tar.digest, tar.size,
                               {"kind": kind, "wheels": [revision.file]})
