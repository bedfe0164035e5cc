"""Every wheel of a lock into the store: parallel, resumable, hashed before it is trusted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from builder import console
from builder.errors import IntegrityError, NetworkError, command
from builder.fetch.download import Partial, download, partial
from builder.files import disk_errors, require_space
from builder.indexes.http import Client, Pace, SourceError, Stopped
from builder.indexes.listings import Listings, Source, sources_for
from builder.indexes.settings import COMPILED, Sources, user_sources
from builder.locking.lock import Lock, LockedWheel
from builder.matrix.models import Index
from builder.removal import remove_file
from builder.store.content_store import Store

THREADS = 6
ABSENT = "does not have it"


@dataclass(frozen=True)
class FetchedWheels:
    """A lock and where each of its wheels lies; ``fetched`` were not in the store before."""

    lock: Lock
    paths: Mapping[LockedWheel, Path]
    fetched: tuple[LockedWheel, ...] = ()
    seconds: float = 0.0

    @property
    def fetched_bytes(self) -> int:
        """Return the bytes of the wheels that were not in the store."""
        return sum(wheel.size for wheel in self.fetched)


def fetch_lock(lock: Lock, store: Store, indexes: Mapping[str, Index], *,
               user: Sources | None = None, pace: Pace | None = None) -> FetchedWheels:
    """Return every wheel of ``lock``, fetching those that the store lacks.

    ``indexes`` are the cell's named ones, ``user`` this machine's sources. Raises NetworkError (not
    found, no answer), IntegrityError (other bytes than locked), LockError (a size that is not the
    file's) and DiskError.
    """
    start = monotonic()
    paths = {wheel: store.find_wheel(wheel) for wheel in lock.wheels}
    missing = sorted((wheel for wheel, path in paths.items() if path is None),
                     key=lambda wheel: -wheel.size)  # the longest first, so that none trails
    if missing:
        _check_space(store, missing, lock.cell)
        run = _Run(store, indexes, user or user_sources(), pace or Pace())
        paths.update(run.all(missing, lock.cell))
    found = {wheel: path for wheel, path in paths.items() if path is not None}
    return FetchedWheels(lock, found, tuple(missing), monotonic() - start)


def _check_space(store: Store, missing: Sequence[LockedWheel], cell: str) -> None:
    needed = sum(wheel.size - _left(store.partial_path(wheel)) for wheel in missing)
    require_space(store.root, needed, f"for the {len(missing)} wheels that {cell} lacks")


def _left(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class _Run:
    """One parallel fetch: what its threads share."""

    def __init__(self, store: Store, indexes: Mapping[str, Index], user: Sources, pace: Pace
                 ) -> None:
        self._store, self._indexes, self._user, self._pace = store, indexes, user, pace
        self._stop = threading.Event()
        self._client = Client(user)
        self._listings = Listings(self._client, pace, self._stop)
        self._counting = threading.Lock()

    def all(self, wheels: Sequence[LockedWheel], cell: str) -> dict[LockedWheel, Path]:
        """Fetch ``wheels``; the first failure stops the others, whose bytes are kept."""
        total = sum(wheel.size for wheel in wheels)
        with (console.progress(f"fetching wheels ({len(wheels)}) for {cell}", total) as meter,
              ThreadPoolExecutor(THREADS, "fetch") as pool):
            def advance(count: int) -> None:
                with self._counting:
                    meter.advance(count)

            jobs = {pool.submit(self._one, wheel, advance): wheel for wheel in wheels}
            try:
                done, _ = wait(jobs, return_when=FIRST_EXCEPTION)
                _raise_first(done)
            finally:
                self._stop.set()
                pool.shutdown(cancel_futures=True)
        return {wheel: job.result() for job, wheel in jobs.items()}

    def _one(self, wheel: LockedWheel, advance: Callable[[int], None]) -> Path:
        path = self._store.partial_path(wheel)
        with partial(path, self._stop, advance) as into:
            found = self._store.find_wheel(wheel)
            if found is not None:  # another process was quicker
                remove_file(path, self._store.root)
                return found
            self._from_anywhere(wheel, into)
            with disk_errors(path, "while storing wheels"):
                return self._store.add_wheel(wheel, path)

    def _from_anywhere(self, wheel: LockedWheel, into: Partial) -> None:
        """Try every source in turn; raise what is most worth knowing when none has the wheel."""
        answers: dict[str, str] = {}
        wrong: IntegrityError | None = None
        for source in sources_for(wheel.name, wheel.index, self._indexes, self._user):
            if self._stop.is_set():
                raise Stopped
            try:
                if self._from_source(source, wheel, into):
                    return
                answers[source.name] = ABSENT
            except SourceError as failure:
                answers[source.name] = failure.reason
            except IntegrityError as error:
                wrong = wrong or error
                answers[source.name] = "has other bytes"
        raise wrong or _nowhere(wheel, answers)

    def _from_source(self, source: Source, wheel: LockedWheel, into: Partial) -> bool:
        """Download from ``source``; False where it has no such file."""
        links = self._listings.links(source, wheel.name, wheel.file)
        fitting = [link for link in links if link.sha256 in (None, wheel.sha256)]
        if links and not fitting:
            raise IntegrityError(wheel.file, expected=f"sha256 {wheel.sha256}",
                                 actual=f"sha256 {links[0].sha256} (listed by {source.name})",
                                 next_step="if no other source has the locked bytes, lock again: "
                                 + command("lock", "CELL"))
        if fitting:
            download(self._client, fitting[0], wheel, into, self._pace, self._stop)
        return bool(fitting)


def _nowhere(wheel: LockedWheel, answers: Mapping[str, str]) -> NetworkError:
    """Return the error of a wheel that no source gave, with what each of them answered."""
    lines = "".join(f"\n  {name}: {reason}" for name, reason in answers.items())
    absent = all(reason == ABSENT for reason in answers.values())
    if absent and wheel.index == COMPILED:
        return NetworkError(f"{wheel.file} was compiled, and is neither here nor in a registry",
                            where=f"{wheel.name} {wheel.version}",
                            next_step="compile it with " + command("wheels", "build", "CELL"))
    what = f"no source has {wheel.file}" if absent else f"{wheel.file} could not be fetched"
    return NetworkError(
        what + lines, where=f"{wheel.name} {wheel.version}, locked from {wheel.index}",
        next_step=f"it may have been withdrawn: lock again with {command('lock', 'CELL')}"
        if absent else "check the network, the proxy and the index; then run the same command "
        "again, which continues")


def _raise_first(done: set[Future[Path]]) -> None:
    """Raise the failure that stopped the rest, rather than a download that was called off."""
    errors = [error for job in done if (error := job.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, Stopped)):
        raise error
