"""Which record is meant: by its file, its id or its cell.

A run that was killed leaves a record that still says ``running``. A record holds no process number,
since it may be published, so the processes of this machine are searched instead: a run is alive if
one of them is a smoke test or a benchmark that started just before the record did.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from builder.errors import UsageError, command
from builder.record.models import TIME_FORMAT, Record

PROC = Path("/proc")
STARTS_WITHIN_S = 120.0  # from the start of the process to the first state of its record
ROUNDING_S = 2.0  # records keep their times in whole seconds
VERBS = ("smoke", "bench")
PROGRAMS = ("sparkyard", "builder")
OFFERED = 5  # ids named in an error, at most


def record_path(folder: Path, name: str) -> Path:
    """Return the file of the one record that ``name`` refers to; raises UsageError.

    A name is a file, a cell (its newest record), an id (``cpu/20260102T030405Z-2``) or the
    beginning of one, with or without the cell.
    """
    file = _file(name)
    if file:
        return file
    known = record_files(folder)
    of_cell = [path for path in known if path.parent.name == name]
    if of_cell:
        return of_cell[-1]
    matching = [path for path in known if record_id(path).startswith(name)
                or path.stem.startswith(name)]
    exact = [path for path in matching if name in (record_id(path), path.stem)]
    if len(exact or matching) != 1:
        raise _ambiguous(folder, name, exact or matching, known)
    return (exact or matching)[0]


def record_id(path: Path) -> str:
    """Return the id of a record, which is its place: ``cpu/20260102T030405Z-2``."""
    return f"{path.parent.name}/{path.stem}"


def as_ended(record: Record, proc: Path = PROC) -> Record:
    """Return a record that says it is running as interrupted, where that run is gone."""
    if record.state != "running" or is_running(record.started, proc):
        return record
    return record.model_copy(update={
        "state": "interrupted", "reason": "its process no longer exists; it last wrote this "
        f"record at {record.updated or record.started}"})


def is_running(started: str, proc: Path = PROC) -> bool:
    """Say whether a run whose record started then may be alive; True where nothing can tell."""
    try:
        record = datetime.strptime(started, TIME_FORMAT).replace(tzinfo=UTC).timestamp()
        booted = _boot_time(proc)
    except (OSError, ValueError):
        return True
    return any(-ROUNDING_S <= record - start <= STARTS_WITHIN_S
               for start in _start_times(proc, booted))


def record_files(folder: Path) -> list[Path]:
    """Return the files of all records, oldest first: a name begins with the time of the start."""
    return sorted(folder.glob("*/*.json"), key=lambda path: (path.stem, path.parent.name))


def _file(name: str) -> Path | None:
    try:
        return Path(name) if Path(name).exists() and not Path(name).is_dir() else None
    except (OSError, ValueError):  # too long for a file's name, or it holds a null character
        return None


def _ambiguous(folder: Path, name: str, matching: Sequence[Path],
               known: Sequence[Path]) -> UsageError:
    """Return the error for a name that matches no record, or several."""
    offered = ", ".join(map(record_id, list(matching or known)[-OFFERED:]))
    what = (f'"{name}" matches {len(matching)} records' if matching
            else f'no record matches "{name}"')
    return UsageError(what, where=str(folder), next_step=f"name one of {offered}" if offered
                      else f"make one: {command('smoke', 'CELL')}")


def _boot_time(proc: Path) -> float:
    """Return when the machine was started, in seconds since the epoch."""
    lines = (proc / "stat").read_text(encoding="ascii").splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("btime ")))


def _start_times(proc: Path, booted: float) -> list[float]:
    """Return when each smoke test or benchmark that is alive on this machine was started."""
    times = []
    for folder in proc.glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text("utf-8", "replace").split("\0")
            if _is_run(words):
                fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                times.append(booted + int(fields[19]) / os.sysconf("SC_CLK_TCK"))
        except (OSError, IndexError):  # it ended in the meantime
            continue
    return times


def _is_run(words: list[str]) -> bool:
    """Look for ``sparkyard … smoke …`` or ``python -m builder … bench …``."""
    return any(verb in words for verb in VERBS) and any(
        Path(word).name in PROGRAMS for word in words)
