"""Locked Debian packages into the cache, from the first source that still has them.

A package is trusted only after its sha256 was compared with the lock; it lies under its digest
from then on.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from builder import console
from builder.errors import IntegrityError, NetworkError, SparkyardError, UsageError, command
from builder.files import require_space, sha256_file
from builder.locking.base_lock import LockedDeb
from builder.removal import remove_file
from builder.text import cut, visible

SHOWN = 3  # of the packages that a source does not have
REASON_CHARS = 200


class GoneError(NetworkError):
    """A locked package is nowhere any more: mirrors keep only what is current."""

    kind = "gone"


class Source(Protocol):
    """A place that may have locked packages; ``title`` names it to the user."""

    @property
    def title(self) -> str:
        """Return what it is called in messages."""

    @property
    def at_once(self) -> int:
        """Return how many packages it may be asked for at once."""

    def get(self, deb: LockedDeb, target: Path) -> bool:
        """Write a package to ``target``; return false where this place does not have it.

        Raises NetworkError or UsageError where it cannot be asked.
        """


@dataclass(frozen=True)
class Answer:
    """What one source gave of the packages that it was asked for, and why not the others."""

    title: str
    got: tuple[LockedDeb, ...]
    gone: tuple[LockedDeb, ...] = ()
    trouble: SparkyardError | None = None

    @property
    def complete(self) -> bool:
        """Say whether it gave all."""
        return not self.gone and self.trouble is None

    def __str__(self) -> str:
        parts = [f"does not have {named(self.gone)}"] if self.gone else []
        if self.trouble:
            parts.append(cut(" ".join(visible(self.trouble.what).split()), REASON_CHARS))
        return f"{self.title}: {'; '.join(parts) or f'gave {len(self.got)}'}"


@dataclass(frozen=True)
class Fetched:
    """The files of packages in their order, and what each source that was asked answered."""

    paths: tuple[Path, ...]
    answers: tuple[Answer, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many packages came from each source in this run."""
        return {answer.title: len(answer.got) for answer in self.answers if answer.got}


def fetch_debs(debs: Sequence[LockedDeb], sources: Sequence[Source], cache: Path) -> Fetched:
    """Bring ``debs`` into the cache; each source is asked for what those before it did not give.

    Raises GoneError where the first source no longer has a package and no other gives it,
    the first source's own error where that could not be asked, DiskError where they do not fit.
    """
    folder = cache / "debs"
    folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(place(folder, deb) for deb in debs)
    missing = [deb for deb in debs if not _is_there(place(folder, deb), deb)]
    if not missing:
        return Fetched(paths)
    total = sum(deb.size for deb in missing)
    require_space(folder, total, "for the base's Debian packages")
    answers: list[Answer] = []
    with console.progress("fetching Debian packages", total) as meter:
        for source in sources:
            answers.append(_ask(source, missing, folder, meter))
            there = {deb.sha256 for deb in answers[-1].got}
            missing = [deb for deb in missing if deb.sha256 not in there]
            if not missing:
                return Fetched(paths, tuple(answers))
    raise _failure(missing, answers)


def place(folder: Path, deb: LockedDeb) -> Path:
    """Return where a package lies in the cache."""
    return folder / f"{deb.sha256}.deb"


def named(debs: Sequence[LockedDeb]) -> str:
    """Name the first packages of a list, and say how many more there are."""
    names = ", ".join(f"{deb.name} {deb.version}" for deb in debs[:SHOWN])
    return names + (f" and {len(debs) - SHOWN} more" if len(debs) > SHOWN else "")


def _is_there(path: Path, deb: LockedDeb) -> bool:
    """Say whether the file is whole; a damaged one is removed, to be fetched again."""
    if not path.is_file():
        return False
    if sha256_file(path) == deb.sha256:
        return True
    console.warn(f"{path.name} in the cache is damaged; fetching it again")
    remove_file(path, path.parent)
    return False


@dataclass
class _Asking:
    """One source while it is asked; one that does not answer is not asked for the rest."""

    source: Source
    folder: Path
    meter: console.Meter
    silent: threading.Event = field(default_factory=threading.Event)

    def one(self, deb: LockedDeb) -> bool | SparkyardError | None:
        """Return whether the source has a package, its fault, or None where it was not asked."""
        if self.silent.is_set():
            return None
        try:
            there = _fetch(deb, self.folder, self.source)
        except IntegrityError as error:  # of this package alone
            return error
        except (NetworkError, UsageError) as error:
            self.silent.set()
            return error
        if there:
            self.meter.advance(deb.size)
        return there


def _ask(source: Source, missing: Sequence[LockedDeb], folder: Path, meter: console.Meter
         ) -> Answer:
    asking = _Asking(source, folder, meter)
    with ThreadPoolExecutor(source.at_once) as pool:
        results = list(pool.map(asking.one, missing))
    pairs = list(zip(missing, results, strict=True))
    return Answer(source.title, tuple(deb for deb, result in pairs if result is True),
                  tuple(deb for deb, result in pairs if result is False),
                  next((result for result in results if isinstance(result, SparkyardError)), None))


def _fetch(deb: LockedDeb, folder: Path, source: Source) -> bool:
    """Fetch one package; return whether the source has it."""
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as temporary:
        target = Path(temporary, "package.deb")
        if not source.get(deb, target):
            return False
        actual = sha256_file(target)
        if actual != deb.sha256:
            raise IntegrityError(deb.path, expected=deb.sha256, actual=actual)
        target.replace(place(folder, deb))
    return True


def _failure(missing: Sequence[LockedDeb], answers: Sequence[Answer]) -> SparkyardError:
    """Return the error for packages that no source gave."""
    first = answers[0].trouble
    if first is not None and len(answers) == 1:
        return first
    lines = [f"  {answer}" for answer in answers if not answer.complete]
    if first is not None:
        what = f"{len(missing)} Debian packages cannot be fetched"
        return NetworkError("\n".join([what, *lines]), where=first.where,
                            next_step=first.next_step)
    return GoneError("\n".join([f"locked Debian packages are gone: {named(missing)}", *lines]),
                     where="locks/bases.toml",
                     next_step=f"lock the current ones: {command('base', '--upgrade')}")
