"""What generated files share: limits on reading, faults by name, and sums as coreutils has them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from builder.errors import LockError
from builder.limits import LOCK_BYTES
from builder.locking.generated import (
    SUMS,
    damaged,
    in_order,
    is_as_written,
    read_generated,
    read_sums,
    record_sum,
    repeated,
)


def written(path: Path, text: str = "a = 1\n") -> Path:
    path.write_text(text, encoding="utf-8")
    record_sum(path)
    return path


def test_a_missing_file_is_none_and_a_good_one_its_document(tmp_path: Path) -> None:
    assert read_generated(tmp_path / "a.toml", "lock", "") is None
    assert read_generated(written(tmp_path / "a.toml"), "lock", "") == {"a": 1}


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


def test_an_edit_is_seen_and_a_new_writing_answers_for_it(tmp_path: Path) -> None:
    path = written(tmp_path / "a.toml")
    assert is_as_written(path)
    path.write_text("a = 2\n")
    assert not is_as_written(path)
    record_sum(path)
    assert is_as_written(path)


def test_coreutils_reads_the_sums_and_gone_files_are_forgotten(tmp_path: Path) -> None:
    written(tmp_path / "b.toml")
    written(tmp_path / "a.toml").unlink()
    written(tmp_path / "c.toml")
    assert list(read_sums(tmp_path)) == ["b.toml", "c.toml"]
    subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=tmp_path, check=True,
                   capture_output=True)


def test_foreign_lines_are_no_sums(tmp_path: Path) -> None:
    (tmp_path / SUMS).write_text(f"nonsense\n{'0' * 64}  ../a.toml\n{'0' * 64}  a.toml\n")
    assert read_sums(tmp_path) == {"a.toml": "0" * 64}
