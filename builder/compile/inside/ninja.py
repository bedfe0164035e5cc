"""Drive ninja: as many jobs as the memory allows, fewer after one was killed, and what was made.

A compile that the kernel kills for memory is tried again with the number of jobs that fits; any
other failure ends the build at once.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

KILLED = re.compile(
    r"died due to signal 9|Killed signal terminated program|fatal error: Killed"
    r"|std::bad_alloc|virtual memory exhausted|out of memory allocating|Cannot allocate memory"
    r"|LLVM ERROR: out of memory|collect2: fatal error: ld terminated with signal 9", re.IGNORECASE)
STATUS = "@[%f/%t %e] "  # files done, of all, seconds since the start
FAILED = re.compile(r"^FAILED: (?:\[code=137\] )?(.*)")
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass
class Attempt:
    """One run of ninja: its jobs, its status, and whether a job was killed for memory."""

    jobs: int
    status: int
    killed: bool
    killed_objects: list[str] = field(default_factory=list)


def say(line: str) -> None:
    """Print a line now: whoever follows the build reads it as progress."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def available_memory() -> int:
    """Return the bytes that compiles may take: what is free, or less in a container's limit."""
    text = Path("/proc/meminfo").read_text()
    free = int(re.search(r"MemAvailable:\s+(\d+)", text)[1]) * 1024  # type: ignore[index]
    for name in CGROUP_LIMITS:
        try:
            free = min(free, int(Path(name).read_text()))
        except (OSError, ValueError):
            continue  # there is none, or it says "max"
    return free


def fitting(memory: int, each: int, cores: int) -> int:
    """Return how many jobs of ``each`` bytes fit into ``memory``; one at least."""
    return max(1, min(cores, memory // max(each, 1)))


def make(order: dict[str, Any], build: Path, goals: list[str], log: Path) -> dict[str, Any]:
    """Make ``goals`` with the jobs asked for, or those that the memory allows; return facts."""
    cores = len(os.sched_getaffinity(0))
    jobs = order["jobs"] or fitting(available_memory(), order["memory"], cores)
    say(f"@jobs {json.dumps({'jobs': jobs, 'cores': cores, 'goals': len(goals)})}")
    attempts = run(build, goals, jobs, order["memory"], log)
    return {"attempts": [asdict(each) for each in attempts],
            "available_memory": available_memory()}


def run(build: Path, goals: list[str], jobs: int, each: int, log: Path) -> list[Attempt]:
    """Make ``goals`` and return every attempt, the last being the one that counts."""
    attempts: list[Attempt] = []
    while True:
        attempt = _once(build, goals, jobs, log)
        attempts.append(attempt)
        if attempt.status == 0 or not attempt.killed or jobs == 1:
            return attempts
        fits = fitting(available_memory(), max(each, _largest()), jobs)
        say(f"@killed {json.dumps({'jobs': jobs, 'next': min(fits, jobs - 1) or 1})}")
        jobs = min(fits, jobs - 1) or 1


def _largest() -> int:
    """Return the most memory that one compile has taken so far."""
    return max((int(note["peak_memory"]) for note in measures()), default=0)


def measures() -> list[dict[str, Any]]:
    """Return what the launcher wrote down of each compile."""
    folder = Path(os.environ["SPARKYARD_MEASURES"])
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def _once(build: Path, goals: list[str], jobs: int, log: Path) -> Attempt:
    env = {**os.environ, "NINJA_STATUS": STATUS}
    killed, objects = False, []
    with subprocess.Popen(["ninja", "-C", str(build), f"-j{jobs}", *goals], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          errors="replace") as child, log.open("a") as kept:
        for line in child.stdout or ():
            kept.write(line)
            failed = FAILED.match(line)
            if failed:
                objects.append(failed[1].strip())
            if line.startswith("@["):
                say(line.rstrip()[:400])  # the log has everything
            else:
                killed = killed or bool(KILLED.search(line)) or "[code=137]" in line
        status = child.wait()
    return Attempt(jobs, status, killed, objects if killed else [])
