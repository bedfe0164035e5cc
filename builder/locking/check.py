"""``lock --check``: do the committed locks answer the matrix? Decided without network, for CI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from builder.errors import LockError
from builder.locking.lock import load_for, lock_path, read_reasons, render
from builder.locking.uv import platform
from builder.locking.version_checks import check_versions
from builder.matrix.cells import Cell

OTHER_FILES = frozenset({"bases", "unlocked"})  # what lies in locks/ and is no cell's lock


def stray_locks(cells: Sequence[Cell], folder: Path) -> tuple[Path, ...]:
    """Return lock files in ``folder`` that belong to no cell of the matrix any more."""
    known = {cell.id for cell in cells} | OTHER_FILES
    return tuple(path for path in sorted(folder.glob("*.toml")) if path.stem not in known)


def problems(cell: Cell, folder: Path, reasons: dict[str, str]) -> Iterator[str]:
    """Yield everything that is wrong with the cell's lock; nothing for one declared unlocked."""
    path = lock_path(folder, cell)
    if not path.exists():
        if not cell.blocked and cell.id not in reasons:
            yield f"neither locked nor named in unlocked.toml: run `sparkyard lock {cell.id}`"
        return
    try:
        lock = load_for(cell, folder)
    except LockError as error:
        yield f"{error.what}: {error.next_step}"
        return
    wanted = (cell.id, cell.base.python, platform(cell))
    if (lock.cell, lock.python, lock.platform) != wanted:
        yield f"made for another target than {' '.join(wanted)}: run `sparkyard lock {cell.id}`"
    if render(lock) != path.read_text(encoding="utf-8"):
        yield f"edited by hand or badly merged: run `sparkyard lock {cell.id}`"
    yield from (str(finding) for finding in check_versions(cell, lock))


def check(cells: Sequence[Cell], every_cell: Sequence[Cell], folder: Path) -> None:
    """Raise LockError with all problems of the locks of ``cells`` and with stray lock files."""
    reasons = read_reasons(folder)
    found = [f"{cell.id}: {problem}" for cell in cells
             for problem in problems(cell, folder, reasons)]
    found += [f"{path.name}: belongs to no cell: delete it"
              for path in stray_locks(every_cell, folder)]
    if found:
        raise LockError("the locks do not answer the matrix:\n"
                        + "\n".join(f"  {line}" for line in found), where=str(folder),
                        next_step="run `sparkyard lock` and commit what changes")
