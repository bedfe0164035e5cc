"""Which record is meant: by its file, its id or its cell.

A run that was killed leaves a record that still says ``running``; it is shown as interrupted once
the process that it names is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from builder.errors import UsageError, command
from builder.record.alive import PROC, is_running
from builder.record.models import Record, place_of

OFFERED = 5  # ids named in an error, at most


def record_path(folder: Path, name: str) -> Path:
    """Return the file of the one record that ``name`` refers to; raises UsageError.

    A name is a file, a cell (its newest record), an id (``cpu/20260102T030405Z-2``) or the
    beginning of one, with or without the cell.
    """
    file, path_problem = _file(name)
    if file:
        return file
    known = record_files(folder)
    of_cell = [path for path in known if path.parent.name == name]
    if of_cell:
        return of_cell[-1]
    matching = [path for path in known if record_id(path).startswith(name)
                or path.stem.startswith(name)]
    exact = [path for path in matching if name in (record_id(path), path.stem)]
    if not matching and path_problem:
        raise UsageError(path_problem, where=name, next_step=_offer(known))
    if len(exact or matching) != 1:
        raise _ambiguous(folder, name, exact or matching, known)
    return (exact or matching)[0]


def record_id(path: Path) -> str:
    """Return the id of a record, which is its place: ``cpu/20260102T030405Z-2``."""
    return f"{path.parent.name}/{path.stem}"


def as_ended(record: Record, proc: Path = PROC) -> Record:
    """Return a record that says it is running as interrupted, where that run is gone."""
    if record.state != "running" or is_running(record.process, proc):
        return record
    gone = ("its process no longer exists" if record.process else
            "it does not name its process, as records of earlier versions")
    return record.model_copy(update={
        "state": "interrupted",
        "reason": f"{gone}; it last wrote this record at {record.updated or record.started}"})


def record_files(folder: Path) -> list[Path]:
    """Return the files of all records, oldest first: a name begins with the time of the start."""
    return sorted(folder.glob("*/*.json"), key=lambda path: (
        *place_of(path), path.stem, path.parent.name))


def _file(name: str) -> tuple[Path | None, str]:
    """Return the file of that name; else what is wrong with the name if it is meant as a path."""
    path = Path(name)
    try:
        if path.is_dir():
            return None, "this is a folder, and not the file of a record"
        if path.exists():
            return path, ""
    except PermissionError as error:
        return None, f"this cannot be looked at: {error.strerror}"
    except (OSError, ValueError):  # too long for a file's name, or it holds a null character
        return None, ""
    is_path = path.is_absolute() or name.startswith((".", "~")) or path.suffix == ".json"
    return None, "there is no such file" if is_path else ""


def _ambiguous(folder: Path, name: str, matching: Sequence[Path],
               known: Sequence[Path]) -> UsageError:
    """Return the error for a name that matches no record, or several."""
    what = (f'"{name}" matches {len(matching)} records' if matching
            else f'no record matches "{name}"')
    return UsageError(what, where=str(folder), next_step=_offer(matching or known))


def _offer(known: Sequence[Path]) -> str:
    offered = ", ".join(map(record_id, known[-OFFERED:]))
    return (f"name a record's file, or one of {offered}" if offered
            else f"name a record's file, or make one: {command('smoke', 'CELL')}")
