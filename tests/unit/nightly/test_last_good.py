"""The last good lock under a second name: put back without a byte, and forgotten in the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builder.errors import DiskError
from builder.locking.sums import SUMS, is_edited, read_sums, record_sum, write_summed
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


@pytest.fixture
def night(tmp_path: Path) -> LastGood:
    """Return the last good lock of a night that has written a new one."""
    write_summed(tmp_path / "cpu.toml", b"good", begin=True)
    kept = LastGood(tmp_path / "cpu.toml")
    write_summed(tmp_path / "cpu.toml", b"new")
    return kept


def test_killed_while_it_is_put_back_no_lock_looks_edited(
        night: LastGood, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "cpu.toml", []
    replace = os.replace

    def look(source: Path, target: Path, **_: object) -> None:
        replace(source, target)
        seen.append((path.read_text(), is_edited(path)))

    monkeypatch.setattr("os.replace", look)
    monkeypatch.setattr("os.rename", look)
    night.restore()
    assert [edited for _, edited in seen] == [False] * 3
    assert seen[0][0] == "new"
    assert seen[-1][0] == "good"


def test_a_full_disk_does_not_keep_it_from_being_put_back(
        night: LastGood, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise DiskError("the disk is full", where=str(tmp_path), next_step="free some")

    monkeypatch.setattr("builder.locking.sums.write_text", full)
    night.restore()
    assert (tmp_path / "cpu.toml").read_text() == "good"
    assert not is_edited(tmp_path / "cpu.toml")


def test_what_a_killed_night_has_not_tested_is_taken_back(night: LastGood, tmp_path: Path) -> None:
    night.untested()
    LastGood(tmp_path / "cpu.toml")
    assert (tmp_path / "cpu.toml").read_text() == "good"
    assert not is_edited(tmp_path / "cpu.toml")


@pytest.mark.parametrize("tested", [True, False])
def test_what_was_tested_or_locked_by_somebody_since_stays(
        night: LastGood, tmp_path: Path, tested: bool) -> None:
    night.untested()
    if tested:
        night.forget()
    else:
        write_summed(tmp_path / "cpu.toml", b"new")  # the same, as somebody wanted it
    LastGood(tmp_path / "cpu.toml")
    assert (tmp_path / "cpu.toml").read_text() == "new"


def test_a_lock_that_was_not_there_is_left_as_it_is(tmp_path: Path) -> None:
    kept = LastGood(tmp_path / "cpu.toml")
    (tmp_path / "cpu.toml").write_text("first")
    kept.restore()
    kept.forget()
    assert (tmp_path / "cpu.toml").read_text() == "first"
