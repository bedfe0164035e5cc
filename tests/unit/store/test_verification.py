"""When a file is believed without reading it, and when it is read, kept or removed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from builder.store.verification import move_into_place, stamp_of, verified_size, write_stamp

DATA = b"the bytes"
SHA = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    return path


def size_of(path: Path, sha256: str = SHA) -> int | None:
    return verified_size(path, path.with_name("stamp.json"), sha256, path.parent)


def test_right_bytes_are_kept_and_stamped(file: Path) -> None:
    assert size_of(file) == len(DATA)
    assert file.with_name("stamp.json").exists()


def test_a_stamp_that_fits_is_believed(file: Path) -> None:
    """Even with another sha256: the stamp's name stands for the digest, and it was hashed then."""
    write_stamp(file.with_name("stamp.json"), file)
    assert size_of(file, "0" * 64) == len(DATA)


def test_other_bytes_are_removed_with_their_stamp(
        file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_stamp(file.with_name("stamp.json"), file)
    os.utime(file, (1, 1))
    assert size_of(file, "0" * 64) is None
    assert list(file.parent.iterdir()) == []
    assert "was altered or cut short" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{", "[]", '{"size": 9}', '{"other": 1}', "null"])
def test_a_damaged_stamp_costs_a_reading(file: Path, text: str) -> None:
    file.with_name("stamp.json").write_text(text)
    assert size_of(file) == len(DATA)


def test_an_absent_file_has_no_size(tmp_path: Path) -> None:
    assert size_of(tmp_path / "none") is None


def test_a_file_moves_into_place_read_only_with_its_stamp(file: Path) -> None:
    target, stamp = file.parent / "a" / "b", file.parent / "stamp.json"
    move_into_place(file, target, stamp)
    assert not file.exists()
    assert target.read_bytes() == DATA
    assert target.stat().st_mode & 0o777 == 0o444
    assert verified_size(target, stamp, "0" * 64, file.parent) == stamp_of(target).size
