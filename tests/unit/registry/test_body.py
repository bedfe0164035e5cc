"""A part of a file as a body: copied by the system, or read where that cannot be."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from builder.registry import body
from builder.registry.body import Connection, Piece, Whole

DATA = bytes(range(256)) * 4000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "blob").write_bytes(DATA)
    return tmp_path / "blob"


def copied(piece: Piece) -> bytes:
    """Return what arrives at the other end of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(*server.getsockname())
        connection.connect()
        there, _ = server.accept()
        with there:
            with closing(connection):
                connection.send(b"head ")
                connection.send(piece)
            return b"".join(iter(lambda: there.recv(1 << 20), b""))


def test_a_part_of_the_file_arrives_and_nothing_else(file: Path) -> None:
    assert copied(Piece(file, 1000, 70_000)) == b"head " + DATA[1000:71_000]


def test_a_file_that_became_shorter_is_an_error(file: Path) -> None:
    with pytest.raises(OSError, match="shorter than it was"):
        copied(Piece(file, len(DATA) - 10, 11))
    with pytest.raises(OSError, match="shorter than it was"):
        list(Piece(file, len(DATA) - 10, 11))


def test_where_the_system_cannot_copy_it_is_read(
        file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "READ_BYTES", 999)
    (piece,) = Whole(Piece(file, 5, 10_000))
    parts = [bytes(part) for part in piece]
    assert b"".join(parts) == DATA[5:10_005]
    assert max(map(len, parts)) == 999
    assert len(Whole(piece)) == len(piece) == 10_000
