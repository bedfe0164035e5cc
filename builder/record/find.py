"""Which records a report is of: the newest, or the ones that are named by file, id or cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from builder.errors import UsageError
from builder.record.models import Record, read_record
from builder.record.running import PROC, goes_on


def find(folder: Path, names: Sequence[str]) -> list[Record]:
    """Return the records that ``names`` mean, in that order, or the newest where none is named.

    A name is a file, a cell (its newest record), an id (``cpu/20260102T030405Z-2``) or the
    beginning of one, with or without the cell. Raises UsageError for a name that means nothing or
    several records, and for a record that cannot be read.
    """
    paths = [meant(folder, name) for name in names] or [_newest(folder)]
    return [ended(read_record(path)) for path in paths]


def ended(record: Record, proc: Path = PROC) -> Record:
    """Return a record that says its run goes on as interrupted, where that run is gone."""
    if record.state != "running" or goes_on(record.started, proc):
        return record
    return record.model_copy(update={
        "state": "interrupted", "reason": "its process is gone; the last that was heard of it is "
        f"of {record.updated or record.started}"})


def identity(path: Path) -> str:
    """Return the id of a record by its place: ``cpu/20260102T030405Z-2``."""
    return f"{path.parent.name}/{path.stem}"


def _all(folder: Path) -> list[Path]:
    """Return the files of all records, oldest first: a name begins with the time of the start."""
    return sorted(folder.glob("*/*.json"), key=lambda path: (path.stem, path.parent.name))


def _newest(folder: Path) -> Path:
    found = _all(folder)
    if not found:
        raise UsageError("there is no record yet", where=str(folder),
                         next_step="run `sparkyard smoke CELL`")
    return found[-1]


def _file(name: str) -> Path | None:
    try:
        return Path(name) if Path(name).is_file() else None
    except OSError:  # too long to be a file's name
        return None


def meant(folder: Path, name: str) -> Path:
    """Return the one record that ``name`` means, see ``find``; raises UsageError."""
    file = _file(name)
    if file:
        return file
    known = _all(folder)
    of_cell = [path for path in known if path.parent.name == name]
    if of_cell:
        return of_cell[-1]
    found = [path for path in known if identity(path).startswith(name)
             or path.stem.startswith(name)]
    exact = [path for path in found if name in (identity(path), path.stem)]
    if len(exact or found) != 1:
        raise _unclear(folder, name, exact or found, known)
    return (exact or found)[0]


def _unclear(folder: Path, name: str, found: Sequence[Path], known: Sequence[Path]) -> UsageError:
    """Return the error for a name that means no record, or several."""
    offered = ", ".join(map(identity, list(found or known)[-5:]))
    what = f'"{name}" means {len(found)} records' if found else f'there is no record "{name}"'
    return UsageError(what, where=str(folder), next_step=f"name one of {offered}" if offered
                      else "run `sparkyard smoke CELL`")
