"""Memory between two servers: it is free only when the system says so, not when one has ended.

On a Spark GPU and programs share the memory, so that what one server still holds, the next one
lacks. Who holds it is named.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from builder import console
from builder.doctor.facts import parse_meminfo
from builder.doctor.needs import memory_share
from builder.doctor.nvidia import GpuProcess, parse_processes
from builder.doctor.reading import PROGRAMS, output_of, text_of
from builder.matrix.cells import Cell
from builder.recipes.models import Recipe
from builder.record.gpu import GB10

FREE_WITHIN_S = 60.0
LOOK_EVERY_S = 0.5
BACK = 0.9  # of what a server held: the rest may have been shared, or taken by others since
CPU_CACHE = "VLLM_CPU_KVCACHE_SPACE"  # GiB
LARGE = 1 << 30  # bytes of a program that is worth naming
SHOWN = 3
GIB = 1 << 30
PROC = Path("/proc")


@dataclass(frozen=True)
class Look:
    """The machine's memory in bytes, and what runs on the GPU; None where no driver says so.

    ``unified`` is a GPU that shares this memory, as a GB10 does; any other has its own.
    """

    total: int
    available: int
    gpu: tuple[GpuProcess, ...] | None
    unified: bool = False


def look(proc: Path = PROC) -> Look:
    """Look at this machine."""
    memory = parse_meminfo(text_of(proc / "meminfo") or "")
    return Look(memory.get("MemTotal", 0), memory.get("MemAvailable", 0),
                parse_processes(output_of(PROGRAMS["gpu_processes"])),
                GB10 in (output_of(PROGRAMS["gpus"]) or ""))


def identities(pids: frozenset[int], proc: Path = PROC) -> dict[int, str]:
    """Return when each process began, since ids are used again; those of this machine only."""
    found = {pid: _began(pid, proc) for pid in pids}
    return {pid: began for pid, began in found.items() if began}


def remaining(pids: Mapping[int, str], now: Look, proc: Path = PROC) -> tuple[str, ...]:
    """Return which of a server's processes still hold memory, for people."""
    gpu = {process.pid: process for process in now.gpu or ()}
    alive = [pid for pid, began in sorted(pids.items())
             if pid in gpu or _began(pid, proc) == began]
    return tuple(f"process {pid} ({_name(pid, proc)})" + (
        f", {console.size(gpu[pid].memory or 0)} of the GPU's" if pid in gpu else "")
        for pid in alive)


def await_free(pids: Mapping[int, str], before: Look, *, proc: Path = PROC,
               within: float = FREE_WITHIN_S, see: Callable[[], Look] = look) -> tuple[str, ...]:
    """Wait until a stopped server's memory is back; return who still holds it after ``within``.

    Its processes have to be gone, the driver must not list them, and what they held on the GPU has
    to be available again.
    """
    held = sum(process.memory or 0 for process in before.gpu or ()
               if process.pid in pids and before.unified)
    end = time.monotonic() + within
    while True:
        now = see()
        left = remaining(pids, now, proc)
        missing = before.available + int(BACK * held) - now.available if held else 0
        if not left and missing <= 0:
            return ()
        if time.monotonic() > end:
            unexplained = f"{console.size(missing)} of the GPU's, by none of its processes"
            return left or (unexplained, *holders(now, proc))
        time.sleep(LOOK_EVERY_S)


def needed(recipe: Recipe, cell: Cell, now: Look) -> int:
    """Return the bytes of the machine's memory that a server takes, as far as its flags say so."""
    if not cell.is_cuda:
        space = recipe.environment.get(CPU_CACHE, "")
        return int(space) * GIB if re.fullmatch(r"[0-9]{1,6}", space) else 0
    return int(memory_share(recipe) * now.total) if now.unified else 0


def lacking(recipe: Recipe, cell: Cell, now: Look, proc: Path = PROC) -> str:
    """Return why a server would not fit now, with who holds the memory; nothing where it fits."""
    wanted = needed(recipe, cell, now)
    if not now.total or now.available >= wanted:
        return ""
    held = ", ".join(holders(now, proc)) or "nobody who could be named"
    free = f"{console.size(now.available)} of {console.size(now.total)}"
    return (f"{recipe.name} takes {console.size(wanted)} at least, and {free} are free; memory is "
            f"held by {held}")


def holders(now: Look, proc: Path = PROC) -> tuple[str, ...]:
    """Return who holds most: programs on the GPU, then the largest others."""
    gpu = [(process.memory or 0, process.pid, f"{Path(process.name).name} on the GPU")
           for process in now.gpu or ()]
    known = {pid for _, pid, _ in gpu}
    programs = [(size, pid, name) for size, pid, name in _programs(proc) if pid not in known]
    found = sorted(gpu, reverse=True) + sorted(programs, reverse=True)
    return tuple(f"{name} (process {pid}, {console.size(size)})"
                 for size, pid, name in found[:SHOWN])


def _programs(proc: Path) -> Iterator[tuple[int, int, str]]:
    for folder in proc.glob("[0-9]*"):
        text = text_of(folder / "status") or ""
        size = re.search(r"^VmRSS:\s+(\d+) kB", text, re.MULTILINE)
        if size and int(size[1]) * 1024 >= LARGE:
            yield int(size[1]) * 1024, int(folder.name), _name(int(folder.name), proc)


def _began(pid: int, proc: Path) -> str:
    """Return when a process began, in ticks since boot; nothing for one that has ended.

    One that only waits for its parent to look (a zombie) holds nothing any more.
    """
    fields = (text_of(proc / str(pid) / "stat") or "").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


def _name(pid: int, proc: Path) -> str:
    return (text_of(proc / str(pid) / "comm") or "unknown").strip()
