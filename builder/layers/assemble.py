"""Locked wheels into ordered layers, grouped by what changes together.

1. One for the folders that any user may write to, the same in every image.
2. A layer for each wheel over 20 MB, by name.
3. One for all smaller wheels, under 100 MB: its largest members get layers of their own until
   it is.
4. One for every ``.dist-info``, ``pyvenv.cfg`` and the links to Python. What patches change in a
   wheel lies in a small layer below it (``builder.patches.overlay``).

A bump of one wheel changes its own layer, or the shared one, and the last. Each wheel is unpacked
and compiled once, into tars that stay in the store under the digest of what they depend on; a
run that is killed goes on with the wheels that are missing.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from builder import console
from builder.errors import LockError, UsageError, command
from builder.fetch.wheels import FetchedWheels
from builder.files import disk_errors, require_space
from builder.layers.bytecode import BytecodeCompiler
from builder.layers.contract import WRITABLE, WRITABLE_MODE
from builder.layers.distinfo import Collision, find_collisions, owners
from builder.layers.distinfo import requested as with_request
from builder.layers.layer import ImageLayers, LayerKind, WheelLayers
from builder.layers.wheel_contents import PREFIX, Layout, minor_of, unpacked_size
from builder.layers.wheel_layer import pack_wheel
from builder.locking.lock import Lock, LockedWheel
from builder.store.content_store import Store, StoredLayer
from builder.tarball import Entry, File, Folder, Link, Step, in_memory, read_files, write_tar

FORMAT = 1  # raise it when the same wheels are to become other bytes
OWN_LAYER_BYTES = 20_000_000
SHARED_LAYER_BYTES = 100_000_000
LAYER_LIMIT = 100  # overlay file systems end at 127, and the base has some
WORKERS = 2  # inflating and hashing let go of the interpreter, so threads serve


@dataclass(frozen=True)
class Groups:
    """Which wheels have a layer of their own and which share one, each by name."""

    own: tuple[WheelLayers, ...]
    shared: tuple[WheelLayers, ...]


# Gives a wheel another metadata tar and a layer to lie over all wheels; None: it is as published.
Overlay = Callable[[WheelLayers, Layout, BytecodeCompiler], tuple[WheelLayers, StoredLayer] | None]


def no_overlay(layers: WheelLayers, layout: Layout, compiler: BytecodeCompiler) -> None:
    """Leave every wheel as it was published."""


def make_layers(wheels: FetchedWheels, base_python: str, store: Store, compiler: BytecodeCompiler,
                requested: Collection[str] = (), overlay: Overlay = no_overlay) -> ImageLayers:
    """Return the image's layers; make what the store lacks.

    ``base_python`` is the base's full version, ``requested`` the canonical names of the
    distributions that were asked for by name, ``overlay`` what patches wheels. Each layer's
    ``facts`` hold its ``kind`` and the file names of its ``wheels``. Raises UsageError for a
    wheel that must not enter an image, DiskError before or when the disk is full, EngineError
    from the compiler.
    """
    lock = wheels.lock
    _check(lock, base_python, compiler)
    layout = Layout(base_python)
    published = _wheel_layers(wheels, layout, store, compiler)
    groups = group(published)
    shared = _shared_layer(groups, layout, store)
    patched = {layers.wheel.name: changed for layers in published
               if (changed := overlay(layers, layout, compiler))}
    installed = [patched[layers.wheel.name][0] if layers.wheel.name in patched else layers
                 for layers in published]
    image = ImageLayers(folders_layer(store), tuple(layers.files for layers in groups.own),
                        shared, tuple(layer for _, layer in patched.values()),
                        _environment_layer(installed, frozenset(requested), layout, store))
    count = len(tuple(image))
    if count > LAYER_LIMIT:
        raise UsageError(f"the image would have {count} layers; engines take {LAYER_LIMIT}",
                         where=lock.cell, next_step="leave out some of its large wheels")
    return image


def group(wheels: Sequence[WheelLayers]) -> Groups:
    """Decide by size: over 20 MB alone; of the rest the largest, until it is under 100 MB."""
    shared = sorted((layers for layers in wheels if layers.files.size <= OWN_LAYER_BYTES),
                    key=lambda layers: (layers.files.size, layers.wheel.name))
    total = sum(layers.files.size for layers in shared)
    while total > SHARED_LAYER_BYTES:
        total -= shared.pop().files.size
    names = {layers.wheel.name for layers in shared}
    return Groups(tuple(layers for layers in wheels if layers.wheel.name not in names),
                  tuple(layers for layers in wheels if layers.wheel.name in names))


def key_of(*inputs: object) -> str:
    """Return the digest of everything that a layer depends on."""
    text = json.dumps([FORMAT, PREFIX, *inputs], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _check(lock: Lock, base_python: str, compiler: BytecodeCompiler) -> None:
    if minor_of(base_python) != lock.python or compiler.python != base_python:
        raise LockError(
            f"the lock is for Python {lock.python}, the base has {base_python}, the bytecode "
            f"would be for {compiler.python}", where=lock.cell,
            next_step=f"run {command('lock', lock.cell)}")
    names = [wheel.name for wheel in lock.wheels]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise LockError(f"locked more than once: {', '.join(twice)}", where=lock.cell,
                        next_step=f"run {command('lock', lock.cell)}")


def _keys(wheel: LockedWheel, layout: Layout) -> tuple[str, str]:
    inputs = (wheel.sha256, wheel.file, layout.python)
    return key_of("files", *inputs), key_of("metadata", *inputs)


def _find(wheel: LockedWheel, layout: Layout, store: Store) -> WheelLayers | None:
    files, metadata = (store.find_layer(key) for key in _keys(wheel, layout))
    return WheelLayers(wheel, files, metadata) if files and metadata else None


def _wheel_layers(wheels: FetchedWheels, layout: Layout, store: Store, compiler: BytecodeCompiler
                  ) -> list[WheelLayers]:
    """Return every wheel's tars by name, making those that are missing, the largest first."""
    ordered = sorted(wheels.lock.wheels, key=lambda wheel: wheel.name)
    by_name = {wheel.name: _find(wheel, layout, store) for wheel in ordered}
    missing = [wheel for wheel in ordered if by_name[wheel.name] is None]
    if missing:
        sizes = {wheel.name: unpacked_size(wheels.paths[wheel]) for wheel in missing}
        total = sum(sizes.values())
        console.info(f"{len(missing)} wheels to unpack: about {console.size(total)} of disk")
        require_space(store.root, total + SHARED_LAYER_BYTES, "for layers")
        missing.sort(key=lambda wheel: (-sizes[wheel.name], wheel.name))
        with disk_errors(store.root, "while layers were made"), \
                console.progress("layers", total) as meter:
            make = _Maker(layout, store, compiler, meter)
            by_name.update(make.all([(wheel, wheels.paths[wheel]) for wheel in missing]))
    return [layers for layers in by_name.values() if layers]


class _Stopped(Exception):  # noqa: N818 - not an error: another thread has one
    """Another thread failed, or the user pressed Ctrl-C: leave off."""


class _Maker:
    """Packs wheels in a few threads; the first failure stops the others."""

    def __init__(self, layout: Layout, store: Store, compiler: BytecodeCompiler,
                 meter: console.Meter) -> None:
        self._layout, self._store, self._compiler = layout, store, compiler
        self._meter, self._lock, self._stop = meter, threading.Lock(), threading.Event()

    def all(self, wheels: Sequence[tuple[LockedWheel, Path]]) -> dict[str, WheelLayers]:
        """Pack the wheels and return their wheels by name."""
        with ThreadPoolExecutor(WORKERS) as pool:
            jobs = [pool.submit(self._one, wheel, path) for wheel, path in wheels]
            try:
                wait(jobs, return_when=FIRST_EXCEPTION)
            finally:
                self._stop.set() if any(not job.done() for job in jobs) else None
                pool.shutdown(wait=False, cancel_futures=True)
        errors = [job.exception() for job in jobs if not job.cancelled()]
        for error in errors:
            if error and not isinstance(error, _Stopped):
                raise error
        return {layers.wheel.name: layers for layers in (job.result() for job in jobs)}

    def _one(self, wheel: LockedWheel, path: Path) -> WheelLayers:
        """Pack one wheel; its metadata goes into the store last."""
        with self._store.temporary("wheel") as folder:
            folder.mkdir()
            packed = pack_wheel(path, self._layout, self._compiler, folder, self._step(wheel.name))
            keys = _keys(wheel, self._layout)
            stored = [self._store.add_layer(key, tar.path, tar.digest, tar.size,
                                            {"kind": kind, "wheels": [wheel.file]})
                      for key, tar, kind in zip(keys, (packed.files, packed.metadata),
                                                (LayerKind.WHEEL, LayerKind.METADATA), strict=True)]
        return WheelLayers(wheel, *stored)

    def _step(self, name: str) -> Step:
        def step(count: int) -> None:
            if self._stop.is_set():
                raise _Stopped
            with self._lock:
                self._meter.advance(count, name)
        return step


def _shared_layer(groups: Groups, layout: Layout, store: Store) -> StoredLayer | None:
    """Merge the small wheels, less the files that a wheel of a later name replaces.

    Where two wheels bring one file, the later name wins, as if they were installed in that
    order; without this, a small wheel would win over every large one, whose layer lies below.
    """
    if not groups.shared:
        return None
    sides = [[layers.wheel.name, layers.files.digest] for side in (groups.own, groups.shared)
             for layers in side]
    key = key_of("shared", len(groups.own), *sides)
    found = store.find_layer(key)
    if found is None:
        by_name = sorted((*groups.own, *groups.shared), key=lambda layers: layers.wheel.name)
        contents = {layers.wheel.name: read_files(layers.metadata.path) for layers in by_name}
        collisions = find_collisions(contents, layout)
        winner = owners(contents, layout)
        files = [file for layers in groups.shared for file in read_files(layers.files.path)
                 if winner[file.path] == layers.wheel.name]
        facts = {"kind": LayerKind.SHARED,
                 "wheels": [layers.wheel.file for layers in groups.shared],
                 "collisions": [collision.line for collision in collisions]}
        found = _store_tar(key, files, facts, store)
        _warn(collisions)
    return found


def folders_layer(store: Store) -> StoredLayer:
    """Return the layer of the writable folders, for images that run as any user."""
    key = key_of("folders", sorted(WRITABLE), WRITABLE_MODE)
    found = store.find_layer(key)
    if found is None:
        entries = [Folder(folder.lstrip("/"), WRITABLE_MODE) for folder in WRITABLE]
        found = _store_tar(key, entries, {"kind": LayerKind.FOLDERS, "wheels": []}, store)
    return found


def _environment_layer(wheels: Sequence[WheelLayers], requested: frozenset[str], layout: Layout,
                       store: Store) -> StoredLayer:
    """Merge every wheel's metadata and add what makes the prefix an environment."""
    asked = sorted(requested & {layers.wheel.name for layers in wheels})
    key = key_of("environment", layout.python, asked,
                 *(layers.metadata.digest for layers in wheels))
    found = store.find_layer(key)
    if found is None:
        entries = list(environment(layout))
        for layers in wheels:
            files = read_files(layers.metadata.path)
            entries += with_request(files, layout) if layers.wheel.name in asked else files
        facts = {"kind": LayerKind.ENVIRONMENT, "wheels": [layers.wheel.file for layers in wheels]}
        found = _store_tar(key, entries, facts, store)
    return found


def environment(layout: Layout) -> Iterator[Entry]:
    """Yield what ``python -m venv`` makes: the settings, links to the base's Python, folders."""
    python = f"/usr/bin/python{layout.minor}"
    settings = (f"home = /usr/bin\ninclude-system-site-packages = false\n"
                f"version = {layout.python}\nexecutable = {python}\n")
    yield in_memory(f"{layout.root}/pyvenv.cfg", settings.encode())
    yield Link(f"{layout.bin}/python", python)
    yield Link(f"{layout.bin}/python3", "python")
    yield Link(f"{layout.bin}/python{layout.minor}", "python")
    for folder in ("include", "share"):
        yield Folder(f"{layout.root}/{folder}")


def _store_tar(key: str, entries: Sequence[Entry] | Sequence[File], facts: Mapping[str, object],
               store: Store) -> StoredLayer:
    with disk_errors(store.root, "while layers were made"), store.temporary("layer") as path:
        tar = write_tar(path, entries)
        return store.add_layer(key, tar.path, tar.digest, tar.size, facts)


def _warn(collisions: Sequence[Collision]) -> None:
    for collision in collisions[:10]:
        console.warn(collision.line)
    if len(collisions) > 10:
        console.warn(f"and {len(collisions) - 10} more files that several wheels bring")
