"""Does the run of a record still go on? One that was killed cannot say that it ended.

A record holds no process number, since it may be published. So the processes of this machine are
asked: one of them must be a smoke test or a benchmark that began just before the record did.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

PROC = Path("/proc")
TIME = "%Y-%m-%dT%H:%M:%SZ"
BEGINS_WITHIN_S = 120.0  # from the start of the process to the first state of its record
ROUNDING_S = 2.0  # times are kept in seconds
VERBS = ("smoke", "bench")
PROGRAMS = ("sparkyard", "builder")


def goes_on(started: str, proc: Path = PROC) -> bool:
    """Say whether a run whose record began at ``started`` may go on; True where nothing tells."""
    try:
        record = datetime.strptime(started, TIME).replace(tzinfo=UTC).timestamp()
        booted = _booted(proc)
    except (OSError, ValueError):
        return True
    return any(-ROUNDING_S <= record - begun <= BEGINS_WITHIN_S
               for begun in _runs(proc, booted))


def _booted(proc: Path) -> float:
    """Return when the machine was started, in seconds since the epoch."""
    lines = (proc / "stat").read_text(encoding="ascii").splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("btime ")))


def _runs(proc: Path, booted: float) -> list[float]:
    """Return when each smoke test or benchmark that goes on here began."""
    found = []
    for folder in proc.glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text("utf-8", "replace").split("\0")
            if _is_run(words):
                fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                found.append(booted + int(fields[19]) / os.sysconf("SC_CLK_TCK"))
        except (OSError, IndexError):  # it has ended by now
            continue
    return found


def _is_run(words: list[str]) -> bool:
    """Look for ``sparkyard … smoke …`` or ``python -m builder … bench …``."""
    return any(verb in words for verb in VERBS) and any(
        Path(word).name in PROGRAMS for word in words)
