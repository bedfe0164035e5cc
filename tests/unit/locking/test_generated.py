"""What generated files share: limits on reading, and faults by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import LockError
from builder.limits import LOCK_BYTES
from builder.locking.generated import damaged, in_order, read_generated, repeated


def test_a_missing_file_is_none_and_a_good_one_its_document(tmp_path: Path) -> None:
    assert read_generated(tmp_path / "a.toml", "lock", "") is None
    (tmp_path / "a.toml").write_text("a = 1\n")
    assert read_generated(tmp_path / "a.toml", "lock", "") == {"a": 1}


@pytest.mark.parametrize("data", [
    b"[", b"\xff", b"a = " + b"[" * 20_000, b"a = 1\n" * (LOCK_BYTES // 6 + 1)],
    ids=("toml", "utf-8", "deep", "large"))
def test_what_cannot_be_read_is_one_error_with_the_next_step(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.toml").write_bytes(data)
    with pytest.raises(LockError) as caught:
        read_generated(tmp_path / "a.toml", "lock", "lock it again")
    assert caught.value.next_step == "lock it again"
    assert caught.value.where.endswith("a.toml")


def test_faults_are_counted_and_listed() -> None:
    assert damaged("lock", ["a"], Path("x"), "").what == "the lock is damaged, 1 fault:\n  a"
    assert "2 faults:\n  a\n  b" in damaged("lock", ["a", "b"], Path("x"), "").what


def test_repeated_values_and_order() -> None:
    assert repeated(["a", "b", "a"]) == ["a"]
    assert repeated(["a", "b"]) == []
    assert in_order([("a", "1"), ("a", "2")])
    assert not in_order([("b",), ("a",)])
