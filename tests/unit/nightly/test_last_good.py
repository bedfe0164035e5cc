"""The last good lock under a second name: put back without a byte, and forgotten in the end."""

from __future__ import annotations

from pathlib import Path

from builder.locking.sums import SUMS, read_sums, record_sum
from builder.nightly.last_good import LastGood


def test_it_is_put_back_and_its_sum_with_it(tmp_path: Path) -> None:
    path = tmp_path / "cpu.toml"
    path.write_text("good")
    record_sum(path)
    sums = read_sums(tmp_path)
    kept = LastGood(path)
    path.unlink()
    path.write_text("new")
    record_sum(path)
    kept.restore()
    kept.forget()
    assert path.read_text() == "good"
    assert read_sums(tmp_path) == sums
    assert sorted(one.name for one in tmp_path.glob("*[!k]")) == [SUMS, "cpu.toml"]


def test_a_lock_that_was_not_there_is_left_as_it_is(tmp_path: Path) -> None:
    kept = LastGood(tmp_path / "cpu.toml")
    (tmp_path / "cpu.toml").write_text("first")
    kept.restore()
    kept.forget()
    assert (tmp_path / "cpu.toml").read_text() == "first"
