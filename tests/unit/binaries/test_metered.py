"""Reading bytes of unknown origin within bounds."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from builder.binaries.metered import (
    CALL_COST,
    LEAST_BYTES,
    MOST_BYTES,
    Metered,
    UnreadableError,
    budget,
)


def test_reads_as_a_file_does() -> None:
    data = Metered(io.BytesIO(b"0123456789"))
    assert (data.size, data.read(4), data.tell(), data.read()) == (10, b"0123", 4, b"456789")
    assert (data.seek(-3, os.SEEK_END), data.read(99)) == (7, b"789")
    assert (data.seek(50), data.read(1), data.seek(-49, os.SEEK_CUR)) == (50, b"", 1)
    assert data.exactly(2, 3, "x") == b"234"


def test_a_table_behind_the_end_is_named() -> None:
    with pytest.raises(UnreadableError, match="the symbol table ends 5 bytes after the file"):
        Metered(io.BytesIO(bytes(10))).exactly(8, 7, "the symbol table")


def test_nothing_lies_before_the_start() -> None:
    with pytest.raises(UnreadableError, match="before its own start"):
        Metered(io.BytesIO(b"x")).seek(-2)


def test_the_same_bytes_cannot_be_read_for_ever() -> None:
    data = Metered(io.BytesIO(bytes(1000)))
    for _ in range(budget(1000) // (1000 + CALL_COST)):
        data.seek(0)
        assert len(data.read(1 << 60)) == 1000
    data.seek(0)
    with pytest.raises(UnreadableError, match="more reading than a file of its size can"):
        data.read(1 << 60)


def test_a_budget_grows_with_the_file_and_has_an_end() -> None:
    assert budget(0) == LEAST_BYTES
    assert budget(133_120) > 4 * 257_823  # libcudnn.so.9, as it was measured
    assert budget(629_929_568) > 182_990_958  # libcublasLt.so.13
    assert budget(1 << 40) == MOST_BYTES


def test_a_place_that_no_file_has_is_the_end_of_it(tmp_path: Path) -> None:
    """Found by fuzzing: the operating system refuses to seek to 2^63 in a file on disk."""
    (tmp_path / "x").write_bytes(b"x")
    with (tmp_path / "x").open("rb") as file:
        data = Metered(file)
        data.seek(1 << 63)
        assert data.read(8) == b""
