"""What a lean closure saves, and what trimming costs: ``python -m benchmarks.lean [CELL]``.

CELL (default ``tf5-lean``, fetched before) is trimmed ``--runs`` times in a fresh cache beside the
real one, and after each time read and inflated once for comparison. Then it is trimmed again in the
last of them, and trimmed with one wheel in another version (or, where the real cache has no other,
made anew). The table has a row a wheel: before, after, and by which rule.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from builder.cache_folder import MARKER
from builder.fetch.wheels import FetchedWheels
from builder.lean.stage import WORKERS, LeanClosure, trim_closure
from builder.locking.lock import LockedWheel, load_for
from builder.report import lean as report
from builder.store.content_store import Store, wheel_place
from builder.workspace import open_workspace

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
CHUNK_BYTES = 1 << 20


def timed(work: Callable[[], T]) -> tuple[tuple[float, float], T]:
    """Return the seconds that the work takes, those of the processor, and its result."""
    started, busy = time.perf_counter(), time.process_time()
    result = work()
    return (time.perf_counter() - started, time.process_time() - busy), result


def inflated(path: Path) -> int:
    """Read and inflate every member of a wheel; return the bytes."""
    total = 0
    with zipfile.ZipFile(path) as archive:
        for item in archive.infolist():
            with archive.open(item) as stream:
                while data := stream.read(CHUNK_BYTES):
                    total += len(data)
    return total


def inflate(wheels: FetchedWheels) -> None:
    """Read and inflate the closure with as many threads as trimming has."""
    largest_first = sorted(wheels.paths.values(), key=lambda path: -path.stat().st_size)
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(inflated, largest_first))


def other_version(cache: Path, wheel: LockedWheel) -> LockedWheel | None:
    """Return another version of the wheel for the same platform, where the cache has one."""
    platform = wheel.file.rpartition("_")[2]  # the processor: manylinux's number may differ
    for path in sorted((cache / "wheels").glob(f"*/{wheel.file.partition('-')[0]}-*{platform}")):
        if path.name != wheel.file and "+lean" not in path.name:
            return wheel.model_copy(update={
                "file": path.name, "version": path.name.split("-")[1],
                "sha256": path.parent.name, "size": path.stat().st_size})
    return None


def bumped(cache: Path, wheels: FetchedWheels, name: str, store: Store) -> FetchedWheels:
    """Return the closure with one wheel in another version, or with that wheel forgotten."""
    wheel = wheels.lock.wheel(name)
    assert wheel is not None
    other = other_version(cache, wheel)
    if other is None:
        for note in (store.root / "lean").iterdir():
            if f'"name":"{name}"' in note.read_text(encoding="utf-8"):
                note.unlink()
        return wheels
    print(f"{name} {wheel.version} to {other.version}")
    lock = wheels.lock.model_copy(update={"wheels": tuple(
        other if one is wheel else one for one in wheels.lock.wheels)})
    return replace(wheels, lock=lock, paths={**wheels.paths, other: wheel_place(cache, other)})


def table(closure: LeanClosure) -> None:
    """Print every wheel that became smaller, the largest saving first."""
    for name, before, after, rules in report.savings_rows(closure.saved, shown=len(closure.saved)):
        print(f"{name:34} {before:>9} {after:>9}  {rules}")


def trimmed(wheels: FetchedWheels, gpu: str, folder: Path) -> tuple[LeanClosure, Store]:
    """Trim the closure in a fresh cache."""
    folder.mkdir()
    (folder / MARKER).touch()
    store = Store(folder)
    return trim_closure(wheels, gpu, store), store


def main() -> None:
    """Print the table and the ratios that the bars are about."""
    parser = argparse.ArgumentParser(description="What a lean closure saves, and what it costs.")
    parser.add_argument("cell", nargs="?", default="tf5-lean", metavar="CELL")
    parser.add_argument("--bump", default="vllm", metavar="WHEEL", help="the wheel that changes")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of both (default: 3)")
    options = parser.parse_args()
    workspace = open_workspace(ROOT / "matrix.toml")
    cell = next(cell for cell in workspace.cells if cell.id == options.cell)
    lock, cache, gpu = load_for(cell, workspace.locks), workspace.cache, cell.gpu or ""
    wheels = FetchedWheels(lock, {wheel: wheel_place(cache, wheel) for wheel in lock.wheels})
    with tempfile.TemporaryDirectory(dir=cache.parent) as name:
        folder = Path(name)
        inflate(wheels)  # so that no run reads from the disk what another one finds in memory
        for number in range(options.runs):
            shutil.rmtree(folder / "store", ignore_errors=True)
            os.sync()
            first, made = timed(lambda: trimmed(wheels, gpu, folder / "store"))
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            once, _ = timed(lambda: inflate(wheels))
            if not number:
                table(made[0])
                print("load, trimming, reading and inflating once, ratio to twice that (bar: 1), "
                      "memory (bar: 1000 MB); in brackets the processor's time")
            _print(first, once, memory)
        store = made[1]
        again, _ = timed(lambda: trim_closure(wheels, gpu, store))
        changed = bumped(cache, wheels, options.bump, store)
        one, _ = timed(lambda: trim_closure(changed, gpu, store))
    print(f"the second run {again[0]:.2f} s ({again[1]:.2f} s)")
    print(f"with another {options.bump}: {one[0]:.1f} s ({one[1]:.1f} s)", flush=True)


def _print(first: tuple[float, float], once: tuple[float, float], memory: int) -> None:
    print(f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores  {first[0]:.1f} s ({first[1]:.1f} s)"
          f"  {once[0]:.1f} s ({once[1]:.1f} s)  {first[0] / once[0] / 2:.2f} "
          f"({first[1] / once[1] / 2:.2f})  {memory / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
