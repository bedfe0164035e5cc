"""``lock --check``: do the committed locks answer the matrix? Decided without network, for CI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.utils import parse_wheel_filename

from builder.errors import LockError, command
from builder.locking import base_lock
from builder.locking.candidates import target_tags
from builder.locking.generated import SUMS, is_as_written, read_sums
from builder.locking.lock import Lock, load_for, lock_path, read_reasons, render
from builder.locking.uv import platform
from builder.locking.version_checks import check_versions
from builder.matrix.cells import Cell

BASES = "bases.toml"
OTHER_FILES = frozenset({"bases", "toolchains", "unlocked"})  # in locks/, and no lock of a cell


def check(cells: Sequence[Cell], every_cell: Sequence[Cell], folder: Path) -> None:
    """Raise LockError with all problems of the locks of ``cells``, of the bases' lock, and with
    locks of no cell."""  # noqa: D205, D209
    reasons = read_reasons(folder)
    problems = [f"{cell.id}: {problem}" for cell in cells
                for problem in cell_problems(cell, folder, reasons)]
    problems += [f"{BASES}: {problem}" for problem in base_problems(folder)]
    problems += [f"{name}: {SUMS} names it, and it is not there: run {command('lock')}"
                 for name in sorted(read_sums(folder)) if not (folder / name).exists()]
    problems += [f"{path.name}: belongs to no cell: delete it"
                 for path in stray_locks(every_cell, folder)]
    if problems:
        raise LockError("the locks do not answer the matrix:\n"
                        + "\n".join(f"  {line}" for line in problems), where=str(folder),
                        next_step=f"run {command('lock')} and commit what changes")


def cell_problems(cell: Cell, folder: Path, reasons: dict[str, str]) -> Iterator[str]:
    """Yield everything that is wrong with the cell's lock; nothing for one declared unlocked."""
    path, again = lock_path(folder, cell), f"run {command('lock', cell.id)}"
    if not path.exists():
        if not cell.blocked and cell.id not in reasons:
            yield f"neither locked nor named in unlocked.toml: {again}"
        return
    try:
        lock = load_for(cell, folder)
    except LockError as error:
        yield f"{error.what}: {error.next_step}"
        return
    wanted = (cell.base.python, platform(cell), cell.overrides)
    if (lock.python, lock.platform, lock.overrides) != wanted:
        yield f"made for another target than Python {wanted[0]} on {wanted[1]}: {again}"
    if render(lock) != path.read_text(encoding="utf-8") or not is_as_written(path):
        yield f"edited by hand or badly merged: {again}"
    yield from (f"{file} is not a wheel for the target: {again}" for file in _unfit(cell, lock))
    yield from (str(finding) for finding in check_versions(cell, lock))


def base_problems(folder: Path) -> Iterator[str]:
    """Yield everything that is wrong with the bases' lock; nothing where there is none."""
    path = folder / BASES
    if not path.exists():
        return
    try:
        bases = base_lock.load_bases(path)
    except LockError as error:
        yield f"{error.what}: {error.next_step}"
        return
    if (base_lock.render(bases.values()) != path.read_text(encoding="utf-8")
            or not is_as_written(path)):
        yield f"edited by hand or badly merged: {base_lock.UPGRADE_STEP}"


def stray_locks(cells: Sequence[Cell], folder: Path) -> tuple[Path, ...]:
    """Return lock files in ``folder`` that belong to no cell of the matrix any more."""
    known = {cell.id for cell in cells} | OTHER_FILES
    return tuple(path for path in sorted(folder.glob("*.toml")) if path.stem not in known)


def _unfit(cell: Cell, lock: Lock) -> list[str]:
    tags = target_tags(cell).keys()
    return [wheel.file for wheel in lock.wheels
            if tags.isdisjoint(parse_wheel_filename(wheel.file)[3])]
