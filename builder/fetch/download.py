"""One wheel's bytes into a file that grows, survives a kill, and is hashed as it is written.

The partial file is named by the wheel's sha256, so it is continued from any source that has the
wheel. No ``If-Range`` is sent, since its validator belongs to one server: the locked sha256
guards against mixed bytes, and a continued file that fails it is fetched once more from zero.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import requests

from builder.errors import IntegrityError, command
from builder.files import disk_errors
from builder.indexes.http import (
    CHUNK_BYTES,
    Client,
    Pace,
    SourceError,
    Stopped,
    chunks,
    with_retries,
)
from builder.indexes.listings import Link, local_path
from builder.locking.lock import LockedWheel
from builder.removal import remove_file

LOCK_POLL_S = 0.2
PROGRESS_BYTES = 8 << 20  # an attempt that brought this much does not count as a failed one

Advance = Callable[[int], None]


class Partial:
    """A file that grows, with the hash of what it holds; open only under ``partial``."""

    def __init__(self, path: Path, descriptor: int, advance: Advance) -> None:
        """Hash what an earlier run left; ``advance`` is told of every byte that is there."""
        self.path, self._descriptor, self._advance = path, descriptor, advance
        self.size, self._hash = 0, hashlib.sha256()
        while data := os.read(descriptor, CHUNK_BYTES):
            self._count(data)

    @property
    def sha256(self) -> str:
        """Return the hash of everything written so far."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        """Append ``data``; raises DiskError when the disk is full."""
        with disk_errors(self.path, "while fetching wheels"):
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view):]
        self._count(data)

    def restart(self) -> None:
        """Forget everything written so far."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self._advance(-self.size)
        self.size, self._hash = 0, hashlib.sha256()

    def _count(self, data: bytes) -> None:
        self._hash.update(data)
        self.size += len(data)
        self._advance(len(data))


@contextmanager
def partial(path: Path, stop: threading.Event, advance: Advance) -> Iterator[Partial]:
    """Open and lock the partial file ``path``; waits while another process is at it.

    Raises Stopped when ``stop`` is set meanwhile.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(descriptor, stop)
            if _is_at(descriptor, path):
                yield Partial(path, descriptor, advance)
                return
        finally:
            if _is_at(descriptor, path) and os.fstat(descriptor).st_size == 0:
                remove_file(path, path.parent)  # nothing in it is worth continuing
            os.close(descriptor)


def download(client: Client, link: Link, wheel: LockedWheel, into: Partial, pace: Pace,
             stop: threading.Event) -> None:
    """Fill ``into`` with the wheel's bytes from ``link`` and check them.

    Raises IntegrityError for other bytes than locked (nothing of them is kept), SourceError when
    the source fails for good, DiskError, and Stopped.
    """
    continued = into.size > 0
    _fill(client, link, wheel, into, pace, stop)
    if continued and into.sha256 != wheel.sha256:
        into.restart()
        _fill(client, link, wheel, into, pace, stop)
    if into.sha256 != wheel.sha256:
        actual = into.sha256
        into.restart()
        raise IntegrityError(wheel.file, expected=f"sha256 {wheel.sha256}",
                             actual=f"sha256 {actual} (from {link.source})")


def _fill(client: Client, link: Link, wheel: LockedWheel, into: Partial, pace: Pace,
          stop: threading.Event) -> None:
    """Get the missing bytes; go on where it broke, as long as it goes on."""
    if into.size > wheel.size:
        into.restart()
    while into.size < wheel.size:
        before = into.size
        try:
            with_retries(lambda: _once(client, link, wheel, into, stop), pace, stop)
        except SourceError as failure:
            if not failure.retry or into.size - before < PROGRESS_BYTES:
                raise


def _once(client: Client, link: Link, wheel: LockedWheel, into: Partial,
          stop: threading.Event) -> None:
    """Append the rest of the body, as far as it comes."""
    with closing(_body(client, link, wheel, into)) as body:
        for data in body:
            if into.size + len(data) > wheel.size:
                into.restart()
                raise IntegrityError(wheel.file, expected=f"{wheel.size} bytes",
                                     actual=f"more than that (from {link.source})")
            into.write(data)
            if stop.is_set():
                raise Stopped
    if into.size < wheel.size:
        raise SourceError("the file ended early", retry=True)


def _body(client: Client, link: Link, wheel: LockedWheel, into: Partial
          ) -> Generator[bytes, None, None]:
    """Yield the bytes from ``into.size`` on; starts ``into`` again where that cannot be had."""
    path = local_path(link.url)
    if path is not None:
        yield from _read(path, into.size)
        return
    reply = client.get(link.url, offset=into.size)
    if reply.status_code not in (200, 206):
        reply.close()
        into.restart()
        raise SourceError(f"answered {reply.status_code}", retry=reply.status_code == 416)
    first, total = extent(reply)
    if total not in (None, wheel.size):
        reply.close()
        # The same sha256 with another size: it is the lock that is wrong, not the source.
        step = (f"the source lists the locked sha256, so the size in the lock is wrong: run "
                f"{command('lock', 'CELL')}") if link.sha256 == wheel.sha256 else ""
        raise IntegrityError(wheel.file, expected=f"{wheel.size} bytes",
                             actual=f"{total} bytes (from {link.source})", next_step=step)
    if first != into.size:
        into.restart()
    if first != into.size:
        reply.close()
        raise SourceError("answered with another range than asked for", retry=True)
    yield from chunks(reply)


def extent(reply: requests.Response) -> tuple[int, int | None]:
    """Return where the reply's body begins in the file, and the file's size where it is said."""
    if reply.status_code == 200:
        length = reply.headers.get("Content-Length", "")
        return 0, int(length) if re.fullmatch(r"[0-9]{1,18}", length) else None
    found = re.match(r"bytes (\d{1,18})-\d*/(\d{1,18}|\*)", reply.headers.get("Content-Range", ""))
    if found is None:
        return -1, None
    return int(found[1]), None if found[2] == "*" else int(found[2])


def _read(path: Path, offset: int) -> Iterator[bytes]:
    try:
        with path.open("rb", buffering=0) as stream:
            stream.seek(offset)
            while data := stream.read(CHUNK_BYTES):
                yield data
    except OSError as error:
        raise SourceError(f"not readable: {error.strerror}", retry=False) from error


def _lock(descriptor: int, stop: threading.Event) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if stop.wait(LOCK_POLL_S):
                raise Stopped from None
        else:
            return


def _is_at(descriptor: int, path: Path) -> bool:
    """Say whether ``path`` still is the open file: whoever held the lock may have moved it."""
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False
