"""``lock --check``: do the committed locks answer the matrix? Decided without network, for CI."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from packaging.utils import parse_wheel_filename

from builder.errors import LockError, UsageError, command
from builder.locking import base_lock
from builder.locking.candidates import target_tags
from builder.locking.lock import Lock, load_edited, lock_path, read_reasons, render
from builder.locking.sums import (
    EDITED,
    FACTS,
    SUMS,
    is_cut_off,
    is_edited,
    is_summed,
    read_sums,
    restore_step,
    sums_fault,
    sums_file,
)
from builder.locking.uv import platform
from builder.locking.version_checks import check_versions
from builder.matrix.cells import Cell

BASES = "bases.toml"
OTHER_FILES = frozenset({"bases", "toolchains", "unlocked"})  # in locks/, and no lock of a cell


def check(cells: Sequence[Cell], every_cell: Sequence[Cell], folder: Path,
          further: Callable[[Cell, Lock], Sequence[str]] | None = None) -> None:
    """Raise LockError with all problems of the locks of ``cells``, of the bases' lock and facts,
    and with locks of no cell. Where the sums are lost, that is said once. ``further`` returns what
    else is wrong with a lock."""  # noqa: D205, D209
    reasons = read_reasons(folder)
    lost = _lost_sums(folder)
    problems = [f"{cell.id}: {problem}" for cell in cells
                for problem in cell_problems(cell, folder, reasons, further, summed=not lost)]
    problems += [f"{BASES}: {problem}" for problem in base_problems(folder, summed=not lost)]
    if not lost:
        problems += _other_sums(folder, {f"{cell.id}.toml" for cell in every_cell})
    problems += [f"{path.name}: belongs to no cell: delete it"
                 for path in stray_locks(every_cell, folder)]
    restore = restore_step(folder / SUMS)
    if lost and not problems:
        raise LockError(lost, where=str(folder / SUMS), next_step=restore)
    if problems:
        lines = [f"{lost}: {restore}", *problems] if lost else problems
        raise LockError("the locks do not answer the matrix:\n"
                        + "\n".join(f"  {line}" for line in lines), where=str(folder),
                        next_step="do what each line says, and commit what changes")


def cell_problems(cell: Cell, folder: Path, reasons: dict[str, str],
                  further: Callable[[Cell, Lock], Sequence[str]] | None = None, *,
                  summed: bool = True) -> Iterator[str]:
    """Yield everything that is wrong with the cell's lock; nothing for one declared unlocked.

    Without ``summed`` the list of sums is not asked.
    """
    path, again = lock_path(folder, cell), f"run {command('lock', cell.id)}"
    if not path.exists():
        if not cell.blocked and cell.id not in reasons:
            yield f"neither locked nor named in unlocked.toml: {again}"
        return
    try:
        lock = load_edited(cell, folder)
    except LockError as error:
        yield f"{error.what}: {error.next_step}"
        return
    wanted = (cell.base.python, platform(cell), cell.overrides)
    if (lock.python, lock.platform, lock.overrides) != wanted:
        yield f"made for another target than Python {wanted[0]} on {wanted[1]}: {again}"
    if render(lock) != path.read_text(encoding="utf-8"):
        yield f"{EDITED}: {restore_step(path)}, or {again}"
    elif summed:
        yield from _sum_problems(path, again)
    yield from (f"{file} is not a wheel for the target: {again}" for file in _unfit(cell, lock))
    yield from (str(finding) for finding in check_versions(cell, lock))
    yield from further(cell, lock) if further else ()


def base_problems(folder: Path, *, summed: bool = True) -> Iterator[str]:
    """Yield everything that is wrong with the bases' lock; nothing where there is none."""
    path = folder / BASES
    if not path.exists():
        return
    try:
        bases = base_lock.load_bases(path)
    except LockError as error:
        yield f"{error.what}: {error.next_step}"
        return
    if base_lock.render(bases.values()) != path.read_text(encoding="utf-8"):
        yield f"{EDITED}: {restore_step(path)}, or {base_lock.MAKE_AGAIN}"
    elif summed:
        yield from _sum_problems(path, base_lock.MAKE_AGAIN)


def _lost_sums(folder: Path) -> str:
    """Say that the list of sums is missing or damaged; nothing where no lock needs it."""
    fault = sums_fault(folder)
    needed = any(path.stem != "unlocked" for path in folder.glob("*.toml"))
    return f"{SUMS}: {fault}, so an edit by hand cannot be seen" if fault and needed else ""


def _sum_problems(path: Path, again: str) -> Iterator[str]:
    if not is_summed(path):
        yield f"{SUMS} does not name it: {restore_step(sums_file(path))}, or {again}"
    elif is_cut_off(path):
        yield f"a run was killed while it noted the file in {SUMS}: {again}"
    elif is_edited(path):
        yield f"{EDITED}: {restore_step(path)}, or {again}"


def _other_sums(folder: Path, locks: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the files that are no lock of a cell, and with those that are gone.

    ``locks`` are the names of the cells' locks: of those, each that was asked for is judged itself.
    """
    sums = read_sums(folder)
    facts = {f"{FACTS}/{path.name}" for path in (folder / FACTS).glob("*.xz")}
    for name in sorted(sums.keys() | facts):
        again = (f"make it again with {command('base', '--upgrade')}" if name in facts
                 else "remove it and build again")
        path = folder / name
        if not path.exists():
            yield (f"{name}: {SUMS} names it, and it is not there: {restore_step(path)}, or run "
                   f"{command('lock')}, which forgets it")
        elif name not in locks and name != BASES:
            try:
                yield from (f"{name}: {problem}" for problem in _sum_problems(path, again))
            except UsageError as error:
                yield f"{name}: {error.what}"


def stray_locks(cells: Sequence[Cell], folder: Path) -> tuple[Path, ...]:
    """Return lock files in ``folder`` that belong to no cell of the matrix any more."""
    known = {cell.id for cell in cells} | OTHER_FILES
    return tuple(path for path in sorted(folder.glob("*.toml")) if path.stem not in known)


def _unfit(cell: Cell, lock: Lock) -> list[str]:
    tags = target_tags(cell).keys()
    return [wheel.file for wheel in lock.wheels
            if tags.isdisjoint(parse_wheel_filename(wheel.file)[3])]
