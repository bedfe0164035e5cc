"""A packed log is read like a plain one, whole, cut off or damaged."""

from __future__ import annotations

import gzip

import pytest

from builder.diagnosis.packed import PIECE_BYTES, unpacked

TEXT = b"".join(b"INFO line %d of a log\n" % n for n in range(5000))


def pieces(data: bytes, size: int = 997) -> list[bytes]:
    return [data[start:start + size] for start in range(0, len(data), size)]


def test_what_is_not_packed_stays_as_it_is() -> None:
    for chunks in ([], [b"x"], [b"plain", b"text"], [None], [b"begin", None]):
        assert list(unpacked(iter(chunks))) == chunks


@pytest.mark.parametrize("size", [2, 997, 10 ** 6])
def test_one_and_several_packed_files_are_one_log(size: int) -> None:
    assert b"".join(filter(None, unpacked(pieces(gzip.compress(TEXT), size)))) == TEXT
    twice = gzip.compress(TEXT) + gzip.compress(b"the end\n")
    assert b"".join(filter(None, unpacked(pieces(twice, size)))) == TEXT + b"the end\n"


def test_a_log_that_is_cut_off_or_damaged_ends_there() -> None:
    data = gzip.compress(TEXT)
    cut = b"".join(filter(None, unpacked(pieces(data[:len(data) // 2]))))
    assert cut
    assert TEXT.startswith(cut)
    damaged = b"".join(filter(None, unpacked(pieces(data[:2000] + b"\xff" * 400 + data[2400:]))))
    assert TEXT.startswith(damaged[:1000])
    assert list(unpacked([data[:100], None]))[-1] is None


def test_a_small_file_that_holds_much_comes_in_pieces() -> None:
    data = gzip.compress(bytes(8 * PIECE_BYTES))
    assert max(len(piece or b"") for piece in unpacked([data])) == PIECE_BYTES
