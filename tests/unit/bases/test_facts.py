"""The committed facts of a base: of this very base, bounded when read, never silently damaged."""

from __future__ import annotations

import lzma
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from builder import limits
from builder.bases.facts import commit, committed, facts_path, pack, unpack, write_facts
from builder.binaries.facts import BaseFacts
from builder.locking.sums import SUMS
from tests.unit.locking.test_base_lock import DIGEST, make_base

FACTS = BaseFacts("slim", DIGEST, "linux/arm64", "3.11", "2.36",
                  packages=(("libc6", "2.36-9"),), owners=(("/usr/lib/x.so", "libc6"),),
                  tools=("gcc",))


def test_what_is_committed_is_read_back(tmp_path: Path) -> None:
    path = commit(tmp_path, make_base(), FACTS)
    assert path == facts_path(tmp_path, make_base())
    assert committed(tmp_path, make_base()) == FACTS


def test_the_same_facts_are_the_same_bytes() -> None:
    assert pack(FACTS) == pack(unpack(pack(FACTS)))


def test_facts_of_another_base_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit(tmp_path, make_base(), FACTS)
    assert committed(tmp_path, make_base(image_id="sha256:" + 64 * "c")) is None
    assert capsys.readouterr().err == ""


def test_other_facts_than_were_written_are_not_used(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / SUMS).write_text("")
    path = commit(tmp_path, make_base(), FACTS)
    assert committed(tmp_path, make_base()) == FACTS
    path.write_bytes(pack(replace(FACTS, tools=("gcc", "nvcc"))))
    assert committed(tmp_path, make_base()) is None
    assert "edited by hand" in capsys.readouterr().err
    write_facts(tmp_path, make_base(), pack(FACTS))
    assert committed(tmp_path, make_base()) == FACTS


def test_no_file_is_no_facts(tmp_path: Path) -> None:
    assert committed(tmp_path, make_base()) is None


def bomb() -> bytes:
    """Return a few kilobytes that stand for a gigabyte."""
    packer = lzma.LZMACompressor(preset=0)
    return b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(1024)), packer.flush()])


DAMAGED = {
    "empty": b"", "not packed": b"{}", "cut off": pack(FACTS)[:-9],
    "followed": pack(FACTS) + b"x", "no facts": lzma.compress(b"{}"),
    "a list": lzma.compress(b"[]"), "nested": lzma.compress(100_000 * b"["),
    "other facts": lzma.compress(b'{"elves": 7}'), "not text": lzma.compress(b"\xff\xfe"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_facts_are_said_and_passed_by(name: str, tmp_path: Path,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    path = facts_path(tmp_path, make_base())
    path.parent.mkdir()
    path.write_bytes(DAMAGED[name])
    assert committed(tmp_path, make_base()) is None
    assert "cannot be used" in capsys.readouterr().err


def test_facts_that_unpack_to_a_gigabyte_are_refused_in_little_memory() -> None:
    body = bomb()
    assert len(body) < limits.MB
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than 32 MB"):
            unpack(body)
        assert tracemalloc.get_traced_memory()[1] < 4 * limits.FACTS_BYTES
    finally:
        tracemalloc.stop()
