"""The locks of bases in the night: renewed before the cells, kept where a cell passes on the base.

A renewed base makes all cells on it new: they are built, tested and promoted like any other change.
Where none of them passes, the last good lock is put back, and an issue says what had changed. That
lock is written down before the base is renewed: a night that was killed is settled by the next.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from builder.bases.difference import difference
from builder.bases.facts import facts_path, write_facts
from builder.errors import SparkyardError
from builder.files import write_text
from builder.limits import LOCK_BYTES, read_file
from builder.locking.base_lock import Key, LockedBase, load_bases, write_bases
from builder.matrix.cells import Cell
from builder.model import Frozen
from builder.nightly.cycle import Night, Runner, failure, told
from builder.nightly.issues import Issues
from builder.removal import remove_file

FILE = "bases.toml"


class BaseBefore(Frozen):
    """A base's lock and facts before a night renewed it; ``renewed`` is the new base's image id."""

    base: LockedBase
    facts: str = ""  # base64
    renewed: str = ""


@dataclass(frozen=True)
class Renewal:
    """One base of the night and what became of it; ``last`` is what it was before."""

    key: Key
    night: Night
    last: BaseBefore | None = None

    @property
    def changes(self) -> tuple[str, ...]:
        """Return what the cells on it are told: each change, with the base's name before it."""
        return tuple(f"base {self.key[0]}: {line}" for line in self.night.changes)


@dataclass(frozen=True)
class BaseNights:
    """Renews the bases in ``locks`` by the command that a user runs; ``folder`` is its memory."""

    locks: Path
    folder: Path
    run: Runner
    issues: Issues

    def renew(self, key: Key) -> Renewal:
        """Renew one base's lock; whatever goes wrong becomes its result."""
        name, platform = key
        label = label_of(key)
        try:
            last = self._last_good(key)
            ran = self.run(("base", name, "--upgrade", "--platform", platform))
            if ran.code:
                if last and load_bases(self.locks / FILE).get(key) == last.base:
                    self._forget(key)
                return Renewal(key, failure(label, "base", ran), last)
            new = load_bases(self.locks / FILE)[key]
        except (SparkyardError, KeyError, OSError) as error:
            return Renewal(key, Night(label, "failed: base", failed=True, notes=(str(error),)))
        changes = tuple(difference(last.base if last else None, new))
        if last and changes:
            self._remember(last.model_copy(update={"renewed": new.image_id}))
        return Renewal(key, Night(label, "renewed" if changes else "nothing new",
                                  changes=changes), last)

    def settle(self, renewal: Renewal, cells: Sequence[tuple[Cell, Night]]) -> Night:
        """Keep a renewed lock where a cell passed on it, else put the last good one back."""
        night = renewal.night
        passed = [ran.cell for cell, ran in cells if (ran.new_lock or not ran.failed)
                  and (cell.base_name, cell.platform) == renewal.key]
        if night.changes and not passed and renewal.last is not None:
            return told(self.issues, replace(
                night, state="failed: no cell passed on the new packages", failed=True,
                notes=(self._put_back(renewal.last),)))
        if night.changes:
            night = replace(night, new_lock=True,
                            notes=tuple(f"{cell} passed on it" for cell in passed))
        if not night.failed:
            self._forget(renewal.key)
        return told(self.issues, night)

    def _last_good(self, key: Key) -> BaseBefore | None:
        """Return the lock to go back to: that of a night that was killed, else the present one."""
        present = load_bases(self.locks / FILE).get(key)
        if present is None:
            return None
        path = self._memory(key)
        try:
            kept = BaseBefore.model_validate_json(read_file(path, LOCK_BYTES, "last good lock"))
        except (OSError, ValidationError, SparkyardError):
            kept = None
        if kept and kept.base.key == key and kept.renewed in ("", present.image_id):
            return kept  # otherwise somebody has locked the base meanwhile
        facts = facts_path(self.locks, present)
        last = BaseBefore(base=present, facts=base64.b64encode(read_file(
            facts, LOCK_BYTES, "base's facts")).decode() if facts.exists() else "")
        self._remember(last)
        return last

    def _put_back(self, last: BaseBefore) -> str:
        """Put lock and facts back; say so, or why the next night has to."""
        try:
            if last.facts:
                write_facts(self.locks, last.base, base64.b64decode(last.facts))
            write_bases(self.locks / FILE,
                        {**load_bases(self.locks / FILE), last.base.key: last.base})
            self._forget(last.base.key)
        except (SparkyardError, OSError) as error:
            return f"the lock could not be put back: {error}; the next night does it"
        return "the lock is the one of before"

    def _remember(self, last: BaseBefore) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self._memory(last.base.key), last.model_dump_json())

    def _forget(self, key: Key) -> None:
        if self._memory(key).exists():
            remove_file(self._memory(key), self.folder)

    def _memory(self, key: Key) -> Path:
        return self.folder / f"{label_of(key)}.json"


def label_of(key: Key) -> str:
    """Return the name of a base in the summary and in its issue: ``base-slim-amd64``."""
    return f"base-{key[0]}-{key[1].rpartition('/')[2]}"


def bases_of(cells: Sequence[Cell]) -> list[Key]:
    """Return the bases to renew: a cuda base differs with each build, so it is renewed by hand."""
    return sorted({(cell.base_name, cell.platform) for cell in cells
                   if cell.base.flavour == "slim"})
