"""One cell through the night, by the same commands that a user runs; the first failure ends it.

``lock -> (nothing new?) -> build -> smoke -> push -> promote``

A cell that fails keeps its last good lock, and its tags stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from builder.errors import SparkyardError
from builder.locking.base_lock import Key
from builder.locking.lock import Lock, lock_path, read_lock
from builder.matrix.cells import Cell
from builder.nightly.issues import Issues
from builder.nightly.last_good import LastGood
from builder.nightly.said import diagnosed, last_error, notable
from builder.nightly.words import difference
from builder.text import cut, redact, visible

SHOWN_LINES = 60  # the end of a command's output in an issue
BODY_CHARS = 60_000  # GitHub takes 65,536
KEPT = 5000  # lines of one command
NO_DIAGNOSIS = "no known failure was named; what was said is below"


@dataclass(frozen=True)
class Ran:
    """A command that ended: its exit code and what it printed."""

    code: int
    lines: tuple[str, ...] = ()


Runner = Callable[[Sequence[str]], Ran]


@dataclass(frozen=True)
class Night:
    """What became of one cell: ``nothing new``, ``promoted``, or the stage that failed.

    ``new_lock`` says that the lock is the new one although the cell failed: it was tested before.
    ``why`` are the known failures that a smoke test named, or what the command said last.
    """

    cell: str
    state: str
    failed: bool = False
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    new_lock: bool = False
    why: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """Return the changes and notes in one line; of a failure why, and what was reported."""
        return "; ".join((*self.why, *self.changes[:3], *(
            [f"{len(self.changes) - 3} more changes"] if len(self.changes) > 3 else []),
            *(self.notes[-1:] if self.why else self.notes)))


@dataclass(frozen=True)
class Cycle:
    """The night of several cells.

    ``run`` runs one of our commands; ``is_done`` says whether the registry's candidate is of the
    cell's lock and base and was promoted. ``renewed`` are the changes of bases of this night.
    """

    locks: Path
    run: Runner
    issues: Issues
    is_done: Callable[[Cell], bool]
    renewed: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)
    key: str = ""  # the private key that signs what is pushed

    def cell(self, cell: Cell) -> Night:
        """Take one cell through the night; whatever goes wrong becomes its result."""
        try:
            night = self._cell(cell)
        except (SparkyardError, OSError) as error:
            night = Night(cell.id, "failed: the cycle itself", failed=True, notes=(_said(error),))
        return told(self.issues, night)

    def _cell(self, cell: Cell) -> Night:
        path = lock_path(self.locks, cell)
        before, old = LastGood(path), _lock(path)
        try:
            return self._steps(cell, path, before, old)
        finally:
            before.forget()

    def _steps(self, cell: Cell, path: Path, before: LastGood, old: Lock | None) -> Night:
        ran = self.run(("lock", cell.id, "--upgrade-all"))
        if ran.code:
            return failure(cell.id, "lock", ran)
        before.untested()
        new = _lock(path)
        changes = (*(difference(old, new) if new else ()),
                   *self.renewed.get((cell.base_name, cell.platform), ()))
        if not changes and self.is_done(cell):
            return Night(cell.id, "nothing new")
        failed, gate = self._checked(cell, before, changes)
        if failed:
            return failed
        signed = ("--sign", self.key) if self.key else ()
        for stage, words in (("push", ("push", cell.id, "--next", *signed)),
                             ("promote", ("promote", cell.id))):
            ran = self.run(words)
            if ran.code:
                return replace(failure(cell.id, stage, ran, changes, gate), new_lock=True)
        pointing = tuple(line for line in ran.lines if " -> sha256:" in line)
        return Night(cell.id, "promoted", changes=changes, notes=(*gate, *pointing))

    def _checked(self, cell: Cell, before: LastGood, changes: tuple[str, ...]
                 ) -> tuple[Night | None, tuple[str, ...]]:
        """Build and test; whatever ends that early, also Ctrl-C, leaves the last good lock.

        After SIGKILL the next night puts it back.
        """
        gate: tuple[str, ...] = ()
        good = False
        try:
            for stage, words in self._checks(cell):
                ran = self.run(words)
                gate += notable(ran.lines)
                if ran.code:
                    return failure(cell.id, stage, ran, changes, gate), gate
            good = True
        finally:
            if not good:
                before.restore()
            before.forget()
        return None, gate

    def _checks(self, cell: Cell) -> list[tuple[str, Sequence[str]]]:
        """Return the commands that must be good before anything is pushed."""
        recipes = cell.promote.recipes if cell.promote else ()
        smokes: list[Sequence[str]] = [("smoke", cell.id, "--recipe", name) for name in recipes]
        return [("build", ("build", cell.id)),
                *(("smoke", words) for words in smokes or [("smoke", cell.id)])]


def told(issues: Issues, night: Night) -> Night:
    """Report a failure, or close the issue of one that is over; neither stops the night."""
    try:
        said = (issues.report(night.cell, body(night)) if night.failed
                else issues.settle(night.cell))
    except (SparkyardError, OSError) as error:
        said = f"no issue: {_said(error)}"
    return replace(night, notes=(*night.notes, *([said] if said else [])))


def body(night: Night) -> str:
    """Return the text of an issue: the stage, what changed, and the end of the output.

    It may be public, and what commands print is foreign: no secret, no invisible character, and
    each line is in a block of code.
    """
    changes = "\n".join(f"- {visible(line)}" for line in night.changes) or "- nothing in the lock"
    why, output = _block(night.why) or NO_DIAGNOSIS, _block(night.notes)
    lock = ("the lock is the new one, which was built and tested" if night.new_lock
            else "the lock is as it was")
    return cut(f"{night.cell}: {night.state}. The tag stays at the last image that passed, and "
               f"{lock}.\n\n## Diagnosis\n\n{why}\n\n"
               f"## What changed\n\n{changes}\n\n## What was said\n\n"
               f"{output}\n", BODY_CHARS)


def failure(name: str, stage: str, ran: Ran, changes: tuple[str, ...] = (),
            gate: tuple[str, ...] = ()) -> Night:
    """Return the night of a cell, or a base, that ended with a command's failure."""
    shown = tuple(line for line in ran.lines if line.strip())[-SHOWN_LINES:]
    why = diagnosed(ran.lines) or tuple(filter(None, [last_error(ran.lines)]))
    return Night(name, f"failed: {stage} (exit code {ran.code})", failed=True, changes=changes,
                 notes=tuple(dict.fromkeys((*gate, *shown))), why=why)


def _block(texts: Sequence[str]) -> str:
    return "\n".join(f"    {visible(line)}" for text in texts for line in redact(text).splitlines())


def _said(error: SparkyardError | OSError) -> str:
    return error.what if isinstance(error, SparkyardError) else str(error)


def _lock(path: Path) -> Lock | None:
    try:
        return read_lock(path) if path.exists() else None
    except SparkyardError:
        return None
