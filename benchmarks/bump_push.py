"""What a bump of vLLM moves: ``python -m benchmarks.bump_push [CELL] [VERSION]``.

CELL (default ``tf5-lean``, built before) is locked once more with vLLM VERSION and otherwise the
same wheels, built, and pushed to a fresh registry with ``--direct``; then the cell as it is locked
goes to the same registry. Printed is what the second push sent, beside the compressed layers of the
wheels that differ. Locking and fetching VERSION needs the package index.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks.bump import REST
from benchmarks.push import ROOT, linked_cache, registry, registry_program
from builder.bisection.derive import derived_workspace
from builder.build import build
from builder.direct_push import DirectPush, parts_of, push_direct
from builder.engine.client import Engine, ImageFacts
from builder.image import local_name
from builder.indexes.settings import user_sources
from builder.locking.lock import Lock, load_for, write_lock
from builder.locking.resolver import resolve
from builder.matrix.cells import Cell
from builder.patches.load import load_series
from builder.patches.locking import lock_patches
from builder.patches.upstream import Hosting
from builder.store.compressed import Compression, find_compressed
from builder.store.content_store import Store
from builder.workspace import Workspace, open_workspace


def other_image(workspace: Workspace, cell: Cell, version: str, engine: Engine, locks: Path
                ) -> tuple[Lock, ImageFacts]:
    """Lock and build the cell with another vLLM; return its lock and its image."""
    derived, other = derived_workspace(workspace, cell, version, locks)
    sources = user_sources()
    lock = lock_patches(other, resolve(other, sources, load_for(cell, workspace.locks)), (),
                        derived.root, Hosting(sources, derived.cache), derived.cache)
    write_lock(locks, lock)
    built = build(derived, other, engine, load_series(derived, other, lock))
    return lock, built.image


def push(engine: Engine, store: Store, image: ImageFacts, name: str) -> DirectPush:
    """Push an image under a name, by the registry's API."""
    document = engine.image_document(image.id)
    assert document is not None
    return push_direct(engine, store, document, [name], (), Compression.ZSTD)


def layers(engine: Engine, store: Store, image: ImageFacts) -> dict[str, int]:
    """Return the compressed bytes of an image's own layers by their tars, the lowest first."""
    document = engine.image_document(image.id)
    assert document is not None
    own = parts_of(engine, store, document, Compression.ZSTD).layers
    found = {tar: find_compressed(store, tar, Compression.ZSTD) for tar in own}
    return {tar: layer.size for tar, layer in found.items() if layer}


def differing(old: Lock, new: Lock) -> list[str]:
    """Say which wheels the two locks have in different versions or builds."""
    before = {wheel.name: wheel for wheel in old.wheels}
    return [f"{wheel.name} {before[wheel.name].version if wheel.name in before else 'none'} to "
            f"{wheel.version}" for wheel in new.wheels
            if wheel.name not in before or before[wheel.name].sha256 != wheel.sha256]


def megabytes(sizes: Iterable[int]) -> float:
    """Return a sum in megabytes."""
    return sum(sizes) / 1e6


def main() -> None:
    """Print what the bump moved, beside the bar."""
    parser = argparse.ArgumentParser(description="What a bump of vLLM moves.")
    parser.add_argument("cell", nargs="?", default="tf5-lean", metavar="CELL")
    parser.add_argument("version", nargs="?", default="0.20.1", metavar="VERSION")
    parser.add_argument("--registry", default=registry_program(), metavar="PROGRAM")
    options = parser.parse_args()
    workspace, engine = open_workspace(ROOT / "matrix.toml"), Engine.connect()
    cell = next(cell for cell in workspace.cells if cell.id == options.cell)
    new = engine.inspect(local_name(workspace.registry, cell))
    if new is None:
        raise SystemExit(f"{cell.id} is not built")
    with tempfile.TemporaryDirectory(dir=workspace.cache.parent) as name:
        folder, own = Path(name), Path(name, "cache")
        lock, old = other_image(workspace, cell, options.version, engine, folder / "locks")
        try:
            linked_cache(workspace.cache, own)
            store = Store(own)
            with registry(folder, options.registry) as there:
                target = f"{there.host}/sparkyard/{cell.image}"
                push(engine, store, old, f"{target}:old")
                done = push(engine, store, new, f"{target}:new")
            had = layers(engine, store, old)
            has = layers(engine, store, new)
        finally:
            for tag in old.repo_tags:
                engine.remove(tag)
    _print(cell.id, differing(lock, load_for(cell, workspace.locks)), done, had, has)


def _print(cell: str, changes: list[str], done: DirectPush, had: dict[str, int],
           has: dict[str, int]) -> None:
    wheels = [size for tar, size in [*has.items()][:-REST] if tar not in had]
    rest = [size for tar, size in [*has.items()][-REST:] if tar not in had]
    print(f"{cell}: {'; '.join(changes)}")
    print(f"sent {done.sent / 1e6:.1f} MB in {len(wheels) + len(rest)} of {len(done.layers)} "
          f"layers and a configuration, of {megabytes(layer.size for layer in done.layers):.0f} MB")
    print(f"changed wheels' own layers {megabytes(wheels):.1f} MB, the layers above them "
          f"{megabytes(rest):.1f} MB; sent / changed wheels {done.sent / sum(wheels):.3f} "
          "(bar: 1.05)", flush=True)


if __name__ == "__main__":
    main()
