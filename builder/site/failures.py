"""The catalogue of known failures, with the locked images it touches and the runs that show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builder import specifiers
from builder.diagnosis.models import Catalogue
from builder.locking.lock import Lock
from builder.record.models import Record


@dataclass(frozen=True)
class Failure:
    """One known failure: the versions it affects, the cells that have one, and how often seen."""

    name: str
    cause: str
    confirmed: bool
    affects: tuple[str, ...]
    cells: tuple[str, ...]
    seen: int
    remedy: str
    until: str
    link: str


def failures(catalogue: Catalogue, locks: Mapping[str, Lock], records: Sequence[Record]
             ) -> list[Failure]:
    """Return the catalogue: seen ones first, then those that touch a locked image, then by name."""
    seen = Counter(entry.name for record in records for entry in record.diagnosis
                   if not entry.ruled_out)
    found = [Failure(issue.name, issue.cause, issue.confirmed,
                     tuple(f"{name} {spec}" for name, spec in issue.affects.items()),
                     touched(issue.affects, locks), seen[issue.name], issue.remedy, issue.until,
                     issue.links[0]) for issue in catalogue.issues]
    found += [Failure(one.name, one.cause, one.confirmed, (), (), 0, one.remedy, one.until,
                      one.links[0]) for one in catalogue.reported]
    return sorted(found, key=lambda one: (-one.seen, -len(one.cells), one.name))


def touched(affects: Mapping[str, str], locks: Mapping[str, Lock]) -> tuple[str, ...]:
    """Return the cells whose locked versions are all affected; none where no version is named."""
    return tuple(cell for cell, lock in locks.items() if affects and all(
        (wheel := lock.wheel(name)) is not None and specifiers.allows(spec, wheel.version)
        for name, spec in affects.items()))
