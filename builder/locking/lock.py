"""``locks/<cell>.toml``: a cell resolved, as facts; generated, committed, one wheel a line.

A lock carries the digest of the intent that made it and is refused when the matrix entry has
changed since. It holds names, versions, file names, hashes, sizes and the *name* of the index
that each wheel came from, never an address; of patches the commits and the diff's sha256.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from packaging.utils import canonicalize_name, parse_wheel_filename
from pydantic import Field, model_validator

from builder import specifiers
from builder.config_file import shape_problems
from builder.errors import LockError, command
from builder.files import write_text
from builder.indexes.settings import COMPILED, DEFAULT_INDEX, FIND_LINKS
from builder.locking.generated import damaged, in_order, read_generated, repeated
from builder.locking.sums import refuse_edited, write_summed
from builder.matrix.cells import Cell
from builder.matrix.models import PUBLISHED
from builder.matrix.patch import Patch, needed
from builder.model import Frozen

UNLOCKED = "unlocked.toml"
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class LockedWheel(Frozen):
    """One wheel: its canonical name, version, file name, sha256, bytes and index *name*."""

    name: str
    version: str
    file: Annotated[str, Field(pattern=r"^[\w.+!-]+\.whl$")]
    sha256: Sha256
    size: Annotated[int, Field(ge=0)]
    index: str


class LockedPatch(Frozen):
    """One patch: ``name`` in the matrix, what was declared (``intent``), and what was found.

    ``base`` and ``head`` are commits: the diff's two ends, ``head`` being the merge commit of a
    merged pull request. ``sha256`` and ``size`` are those of the diff in normal form; a patch
    that could not be had has neither, and says ``why``.
    """

    name: str
    source: str
    wheel: str
    intent: str
    base: Annotated[str, Field(pattern=r"^([0-9a-f]{40})?$")] = ""
    head: Annotated[str, Field(pattern=r"^([0-9a-f]{40})?$")] = ""
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    size: Annotated[int, Field(ge=0)] = 0
    why: str = ""

    @model_validator(mode="after")
    def _found_or_not(self) -> LockedPatch:
        if bool(self.sha256) == bool(self.why):
            raise ValueError("a patch has either its sha256 or a reason why it has none")
        return self


class CompiledWheel(LockedWheel):
    """The published wheel whose place a compiled one takes, and what that one was made from.

    ``key`` names all inputs of the compile, ``targets`` what was compiled (none: the whole
    package), ``patches`` the sha256 of the patches that are in it.
    """

    key: Sha256
    targets: tuple[str, ...] = ()
    patches: tuple[Sha256, ...] = ()


class Lock(Frozen):
    """A cell resolved: ``intent`` is the digest of what was asked, ``wheels`` the answer.

    ``python`` and ``platform`` are the resolver's target (``3.11``, ``aarch64-manylinux_2_36``).
    ``patches`` stand in the order in which they are applied. ``compiled`` are the published wheels
    in whose place ``wheels`` has compiled ones.
    """

    lock_version: Literal[1] = 1
    cell: str
    intent: str
    python: str
    platform: str
    overrides: tuple[str, ...] = ()
    wheels: tuple[LockedWheel, ...]
    patches: tuple[LockedPatch, ...] = ()
    compiled: tuple[CompiledWheel, ...] = ()

    def wheel(self, name: str) -> LockedWheel | None:
        """Return the locked wheel of a distribution, by canonical name."""
        return next((wheel for wheel in self.wheels if wheel.name == name), None)

    @property
    def published(self) -> Lock:
        """Return the lock with the published wheels in the place of the compiled ones."""
        old = {entry.name: LockedWheel.model_validate(entry.model_dump(
            include=set(LockedWheel.model_fields))) for entry in self.compiled}
        return self.model_copy(update={"compiled": (), "wheels": tuple(
            old.get(wheel.name, wheel) for wheel in self.wheels)})

    @property
    def size(self) -> int:
        """Return the bytes of all wheels."""
        return sum(wheel.size for wheel in self.wheels)

    @property
    def digest(self) -> str:
        """Return the sha256 of the lock's canonical text; images are labelled with it.

        Why a patch is unresolved is left out: it changes no image, and the same cell locked
        behind another network must not make images stale.
        """
        settled = tuple(patch.model_copy(update={"why": ""}) for patch in self.patches)
        text = render(self.model_copy(update={"patches": settled}))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


class Unlocked(Frozen):
    """``unlocked.toml``: the cells that did not resolve, each with the reason."""

    reasons: Mapping[str, str] = Field(default_factory=dict)


def lock_path(folder: Path, cell: Cell | str) -> Path:
    """Return where the lock of a cell lies."""
    return folder / f"{cell if isinstance(cell, str) else cell.id}.toml"


def render(lock: Lock) -> str:
    """Write a lock as text: fixed key order, wheels sorted, one a line, so that merges are easy."""
    lines = [
        "# Generated by `sparkyard lock`; do not edit.",
        f"lock_version = {lock.lock_version}",
        f"cell = {_quote(lock.cell)}",
        f"intent = {_quote(lock.intent)}",
        f"python = {_quote(lock.python)}",
        f"platform = {_quote(lock.platform)}",
        f"overrides = {_quote(list(lock.overrides))}",
        "wheels = [",
    ]
    lines += [_row(wheel.model_dump())
              for wheel in sorted(lock.wheels, key=lambda wheel: (wheel.name, wheel.file))]
    lines.append("]")
    if lock.patches:
        rows = [_row(patch.model_dump(exclude_defaults=True)) for patch in lock.patches]
        lines += ["patches = [", *rows, "]"]
    if lock.compiled:
        rows = [_row(entry.model_dump(exclude_defaults=True)) for entry in lock.compiled]
        lines += ["compiled = [", *rows, "]"]
    return "\n".join([*lines, ""])


def _row(values: Mapping[str, object]) -> str:
    pairs = ", ".join(f"{key} = {_quote(value)}" for key, value in values.items())
    return f"  {{ {pairs} }},"


def write_lock(folder: Path, lock: Lock) -> Path:
    """Write the lock of a cell into ``folder`` and return its path."""
    path = lock_path(folder, lock.cell)
    write_summed(path, render(lock).encode(), begin=True)
    return path


def read_lock(path: Path) -> Lock:
    """Read a lock and check it whole; raise LockError with every fault in it, or when missing."""
    next_step = f"make it again with {command('lock', path.stem)}"
    raw = read_generated(path, "lock", next_step)
    if raw is None:
        raise LockError("the cell is not locked", where=str(path),
                        next_step=f"lock it with {command('lock', path.stem)}")
    faults = [f"{problem.where}: {problem.what}" for problem in shape_problems(Lock, raw)]
    if not faults:
        lock = Lock.model_validate(raw)
        faults = list(faults_of(lock, path.stem))
    if faults:
        raise damaged("lock", faults, path, next_step)
    return lock


def faults_of(lock: Lock, cell: str) -> Iterator[str]:
    """Yield what is wrong with a lock of the right shape: names, order, sizes, duplicates."""
    if lock.cell != cell:
        yield f'cell: it is the lock of "{lock.cell}", not of "{cell}"'
    for key in ("name", "file"):
        values = [getattr(wheel, key) for wheel in lock.wheels]
        yield from (f'wheels: two wheels have the {key} "{value}"' for value in repeated(values))
    if not in_order((wheel.name, wheel.file) for wheel in lock.wheels):
        yield "wheels: they are not sorted by name"
    for wheel in lock.wheels:
        yield from (f"wheels.{wheel.name}: {fault}" for fault in _wheel_faults(wheel))
    yield from (f'patches: two patches have the name "{name}"'
                for name in repeated([patch.name for patch in lock.patches]))
    names = {wheel.name for wheel in lock.wheels}
    yield from (f'patches.{patch.name}: the wheel "{patch.wheel}" is not in this lock'
                for patch in lock.patches if patch.wheel not in names)
    compiled = {wheel.name for wheel in lock.wheels if wheel.index == COMPILED}
    yield from (f"compiled.{name}: there is no such compiled wheel, or nothing says from what"
                for name in sorted(compiled ^ {entry.name for entry in lock.compiled}))


def _wheel_faults(wheel: LockedWheel) -> Iterator[str]:
    if wheel.size == 0:
        yield "size: no wheel has 0 bytes"
    try:
        name, version, _, _ = parse_wheel_filename(wheel.file)
    except ValueError:  # no name of a wheel, or a number of more digits than Python parses
        yield f'file: "{wheel.file}" is not the file name of a wheel'
        return
    if not specifiers.is_exact(wheel.version):
        yield f"version: {wheel.version!r} is not a version"
    elif name != wheel.name or not specifiers.allows(wheel.version, str(version)):
        yield (f'file: "{wheel.file}" is {name} {version}, the entry says {wheel.name} '
               f"{wheel.version}")


def load_for(cell: Cell, folder: Path) -> Lock:
    """Return the cell's lock; raise LockError when it is missing, damaged, edited or stale."""
    lock = load_edited(cell, folder)
    _require_unedited(cell, folder)
    return lock


def load_edited(cell: Cell, folder: Path) -> Lock:
    """Return the cell's lock as ``load_for`` does, even where it was edited by hand."""
    lock = _load(cell, folder)
    _require_compiled(cell, lock, lock_path(folder, cell))
    return lock


def load_published(cell: Cell, folder: Path) -> Lock:
    """Return the cell's lock with published wheels only; raise LockError as ``load_for`` does.

    Whether what was compiled still answers the matrix does not matter here.
    """
    lock = _load(cell, folder).published
    _require_unedited(cell, folder)
    return lock


def _require_unedited(cell: Cell, folder: Path) -> None:
    refuse_edited(lock_path(folder, cell), "lock", f"make it again with {command('lock', cell.id)}")


def _load(cell: Cell, folder: Path) -> Lock:
    path = lock_path(folder, cell)
    lock = read_lock(path)
    if lock.intent != cell.intent_digest:
        raise LockError(
            "the matrix entry has changed since this lock was made\n"
            f"  lock   {lock.intent}\n  matrix {cell.intent_digest}",
            where=str(path), next_step=f"lock it again with {command('lock', cell.id)}")
    faults = list(_index_faults(cell, lock))
    if faults:
        raise damaged("lock", faults, path, f"make it again with {command('lock', cell.id)}")
    _require_patches(cell, lock, path)
    return lock


def _index_faults(cell: Cell, lock: Lock) -> Iterator[str]:
    """Yield the wheels whose index is none of the cell's, or is not asked for that package."""
    for wheel in lock.wheels:
        index = cell.indexes.get(wheel.index)
        if index is None and wheel.index not in (DEFAULT_INDEX, FIND_LINKS, COMPILED):
            known = ", ".join((DEFAULT_INDEX, FIND_LINKS, *sorted(cell.indexes)))
            yield (f'wheels.{wheel.name}: index: "{wheel.index}" is not an index of this cell '
                   f"(known: {known})")
        elif index is not None and wheel.name not in index.packages:
            yield (f'wheels.{wheel.name}: index: the matrix does not ask "{wheel.index}" for this '
                   "package")


def _require_patches(cell: Cell, lock: Lock, path: Path) -> None:
    """Refuse a lock whose patches are not those that the matrix declares for its versions."""
    wanted = {(name, patch.wheel(cell.vllm_package), patch.digest)
              for name, patch in patches_for(cell, lock)}
    locked = {(patch.name, patch.wheel, patch.intent) for patch in lock.patches}
    differing = sorted({name for name, *_ in wanted ^ locked})
    if differing or [name for name, _ in patches_for(cell, lock)] != [
            patch.name for patch in lock.patches]:
        raise LockError("the patches of the matrix have changed since this lock was made: "
                        + (", ".join(differing) or "their order"), where=str(path),
                        next_step=f"lock them again with {command('patch', 'refresh', cell.id)}")


def _require_compiled(cell: Cell, lock: Lock, path: Path) -> None:
    """Refuse compiled wheels that the matrix does not ask for, or whose patches have changed."""
    wanted = {str(canonicalize_name(name)) for name, policy in cell.wheels.items()
              if policy != (PUBLISHED,)}
    for entry in lock.compiled:
        locked = {patch.sha256 for patch in lock.patches if patch.wheel == entry.name}
        why = ("the matrix takes the published wheel" if entry.name not in wanted else
               "its patches have changed" if set(entry.patches) - locked else "")
        if why:
            raise LockError(f"{entry.name} was compiled for this lock, but {why} since then",
                            where=str(path), next_step="lock the cell again with "
                            + command("wheels", "build", cell.id))


def patches_for(cell: Cell, lock: Lock) -> tuple[tuple[str, Patch], ...]:
    """Return the declared patches that the locked versions need, by name, in order."""
    versions = {wheel.name: wheel.version for wheel in lock.wheels}
    return tuple(needed(cell.patches, cell.vllm_package, versions))


def read_reasons(folder: Path) -> dict[str, str]:
    """Return why cells are not locked, as the last ``lock`` wrote it down."""
    path = folder / UNLOCKED
    next_step = f"delete it and run {command('lock')}"
    raw = read_generated(path, "file", next_step) or {}
    problems = shape_problems(Unlocked, raw)
    if problems:
        raise damaged("file", [f"{item.where}: {item.what}" for item in problems], path, next_step)
    return dict(Unlocked.model_validate(raw).reasons)


def write_reasons(folder: Path, reasons: Iterable[tuple[str, str]]) -> None:
    """Write down why cells are not locked, sorted by cell."""
    lines = ["# Generated by `sparkyard lock`: cells that did not resolve, and why.", "[reasons]"]
    lines += [f"{_quote(cell)} = {_quote(reason)}" for cell, reason in sorted(reasons)]
    write_text(folder / UNLOCKED, "\n".join([*lines, ""]))


def _quote(value: object) -> str:
    """Write a value as JSON that is also TOML: no surrogate pairs, and DEL escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
