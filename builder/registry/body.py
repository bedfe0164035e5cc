"""A part of a file as the body of a request: the system copies it from the file to the connection.

Reading the file here and writing it to the connection takes about as much of the processor as a
registry takes to write what it got. Over an encrypted connection, or through a proxy, there is no
other way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

READ_BYTES = 1 << 20  # a buffer this small stays in the processor's cache while it is sent


@dataclass(frozen=True)
class Piece:
    """A part of a file; iterated, it is read through one buffer."""

    path: Path
    offset: int
    count: int

    def __len__(self) -> int:
        """Return how many bytes it is, for the request's ``Content-Length``."""
        return self.count

    def __iter__(self) -> Iterator[memoryview]:
        """Yield the bytes; a view is valid until the next one. Raises OSError for a short file."""
        buffer, left = memoryview(bytearray(min(READ_BYTES, self.count))), self.count
        with self.path.open("rb", buffering=0) as stream:
            stream.seek(self.offset)
            while left:
                count = stream.readinto(buffer[:left])
                if not count:
                    raise self._short()
                yield buffer[:count]
                left -= count

    def copy_to(self, connection: Any) -> None:
        """Copy the bytes to a socket that is not encrypted; raises OSError for a short file."""
        with self.path.open("rb", buffering=0) as stream:
            if connection.sendfile(stream, self.offset, self.count) != self.count:
                raise self._short()

    def _short(self) -> OSError:
        return OSError(f"{self.path} is shorter than it was")


@dataclass(frozen=True)
class Whole:
    """A piece as the body of a request, of one part: the piece itself, which ``send`` knows.

    A connection that does not know it iterates over it, as ``http.client`` does with a part that
    is not bytes.
    """

    piece: Piece

    def __len__(self) -> int:
        """Return its bytes."""
        return len(self.piece)

    def __iter__(self) -> Iterator[Piece]:
        """Yield the piece."""
        yield self.piece


class Connection(HTTPConnection):
    """A connection that is not encrypted."""

    def send(self, data: Any) -> None:
        """Send bytes, or let the system copy a piece of a file."""
        if not isinstance(data, Piece):
            super().send(data)
            return
        assert self.sock is not None  # the headers went before
        data.copy_to(self.sock)


class Pool(HTTPConnectionPool):
    """Such connections to one host."""

    ConnectionCls = Connection


class Adapter(HTTPAdapter):
    """What a session sends requests with to ``http://``."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Make connections of our kind, but for those of a proxy."""
        super().init_poolmanager(*arguments, **options)
        kinds = self.poolmanager.pool_classes_by_scheme
        self.poolmanager.pool_classes_by_scheme = {**kinds, "http": Pool}
