"""The gate of a whole closure beside reading it once: `python benchmarks/gate.py [CELL]`.

CELL (default ``tf5``) must be fetched. Each figure is a ratio of two runs on this machine, one
after the other, wheels in the page cache as far as memory goes: the gate with nothing known, a
plain program that reads and inflates every member of the same wheels, the gate again, and NVIDIA's
`cuobjdump --list-elf --list-ptx` and `nm -D` over the same ELF files (unpacked beforehand, which is
not counted). The wheel of triton that the cell ``cpu`` locks has the `cuobjdump` for x86-64.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from builder.binaries.wheel_facts import read_wheels  # noqa: E402 - found beside this folder
from builder.locking.lock import read_lock  # noqa: E402
from builder.store.content_store import Store, wheel_place  # noqa: E402
from builder.workspace import cache_folder  # noqa: E402

CHUNK_BYTES = 1 << 20


class Ran(NamedTuple):
    """What a command took: wall-clock and processor seconds, and its largest memory in bytes."""

    seconds: float
    processor: float
    memory: int
    status: int


def ran(*command: str | Path, cache: Path | None = None) -> Ran:
    """Run a command to its end, output thrown away."""
    started = time.perf_counter()
    env = {**os.environ, **({"SPARKYARD_CACHE": str(cache)} if cache else {})}
    child = subprocess.Popen([*command], cwd=ROOT, env=env, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return Ran(time.perf_counter() - started, used.ru_utime + used.ru_stime,
               used.ru_maxrss * 1024, child.returncode)


def inflate(paths: Sequence[str]) -> None:
    """Read and inflate every member of some wheels once, and do nothing with it."""
    for path in paths:
        with zipfile.ZipFile(path) as opened:
            for item in opened.infolist():
                with opened.open(item) as stream:
                    while stream.read(CHUNK_BYTES):
                        pass


def wheels_of(cell: str) -> list[tuple[Path, str]]:
    """Return path and digest of every wheel of a lock; they must be in the cache."""
    lock = read_lock(ROOT / "locks" / f"{cell}.toml")
    found = [(wheel_place(cache_folder(), wheel), wheel.sha256) for wheel in lock.wheels]
    missing = [path.name for path, _ in found if not path.exists()]
    if missing:
        sys.exit(f"{len(missing)} wheels are not fetched: run `sparkyard fetch {cell}`")
    return found


def empty_cache(cell: str, folder: Path) -> Path:
    """Return a cache that has a cell's wheels, hashed, and no facts or verdicts.

    They are hard links: a cache must not contain symbolic ones.
    """
    store = Store(folder)
    for wheel in read_lock(ROOT / "locks" / f"{cell}.toml").wheels:
        path = store.wheel_path(wheel)
        path.parent.mkdir()
        path.hardlink_to(wheel_place(cache_folder(), wheel))
        store.find_wheel(wheel)
    return folder


def cuobjdump(folder: Path) -> Path:
    """Return NVIDIA's program, taken out of a locked wheel of triton."""
    cell = "tf5" if platform.machine() in ("aarch64", "arm64") else "cpu"
    wheel = read_lock(ROOT / "locks" / f"{cell}.toml").wheel("triton")
    if wheel is None:
        sys.exit(f"{cell} has no triton any more")
    with zipfile.ZipFile(wheel_place(cache_folder(), wheel)) as opened:
        program = Path(opened.extract("triton/backends/nvidia/bin/cuobjdump", folder))
    program.chmod(0o755)
    return program


def others(wheels: Sequence[tuple[Path, str]], known: Path, folder: Path) -> Iterator[float]:
    """Yield the seconds that cuobjdump and nm need for each ELF file, unpacked one by one."""
    program = cuobjdump(folder / "nvidia")
    folder = folder / "unpacked"
    for (path, _), facts in zip(wheels, read_wheels(wheels, known), strict=True):
        with zipfile.ZipFile(path) as opened:
            for elf in facts.elves:
                if elf.path not in opened.NameToInfo:
                    continue  # a script, under another name
                file = Path(opened.extract(elf.path, folder))
                yield ran("nm", "-D", file).seconds
                yield sum(ran(program, option, file).seconds
                          for option in ("--list-elf", "--list-ptx"))
                file.unlink()


def main() -> None:
    """Print each ratio beside its bar."""
    if sys.argv[1:2] == ["--inflate"]:
        inflate(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cell", nargs="?", default="tf5",
                        help="whose wheels are judged (default: %(default)s)")
    cell = parser.parse_args().cell
    wheels = wheels_of(cell)
    once = ran(sys.executable, __file__, "--inflate", *(path for path, _ in wheels))
    with tempfile.TemporaryDirectory(dir=cache_folder().parent) as scratch:  # for hard links
        cache = empty_cache(cell, Path(scratch, "cache"))
        command = (sys.executable, "-m", "builder", "gate", cell)
        first, second = ran(*command, cache=cache), ran(*command, cache=cache)
        start = ran(sys.executable, "-m", "builder", "gate", "--help")
        print(f"gate {cell}: {len(wheels)} wheels, status {first.status}, {first.seconds:.1f} s; "
              f"read and inflated once: {once.seconds:.1f} s")
        print(f"gate / read and inflate once: {first.seconds / once.seconds:.2f} (bar: 2); "
              f"processor time: {first.processor / once.processor:.2f}")
        print(f"peak memory: {first.memory / 1e6:.0f} MB (bar: 1,000)")
        print(f"second run: {second.seconds:.2f} s, start-up {start.seconds:.2f} s of it (bar: 1 s "
              f"beyond it); first / second: {first.seconds / second.seconds:.0f}")
        theirs = sum(others(wheels, cache, Path(scratch)))
        print(f"gate / cuobjdump and nm: {first.seconds / theirs:.2f} (bar: 1; they took "
              f"{theirs:.1f} s for files that were unpacked for them)")


if __name__ == "__main__":
    main()
