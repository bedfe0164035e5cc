"""What a run observes: a log on disk line by line, in memory from both ends, on a full disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import DiskError
from builder.smoke.models import TOO_LONG, KeptLog


def test_a_log_is_on_disk_line_by_line(tmp_path: Path) -> None:
    log = KeptLog(tmp_path / "logs" / "x.log")
    log.append("one")
    assert (tmp_path / "logs" / "x.log").read_text() == "one\n"
    log.append("two")
    log.close()
    log.append("a last word of the thread that follows it")
    assert (log[:2], (tmp_path / "logs" / "x.log").read_text()) == (["one", "two"],
                                                                      "one\ntwo\n")


def test_a_log_on_a_full_disk_goes_on_in_memory_and_says_so() -> None:
    log = KeptLog(Path("/dev/full"))
    log.raise_if_full()
    log.append("one")
    log.append("two")
    with pytest.raises(DiskError, match="while the log was written"):
        log.raise_if_full()
    log.close()
    assert list(log) == ["one", "two"]


def test_a_log_without_end_keeps_both_ends_and_says_so_in_the_file(tmp_path: Path) -> None:
    log = KeptLog(tmp_path / "x.log", limit=1000)
    for number in range(10_000):
        log.append(f"line {number:4}")
        assert sum(map(len, log)) <= 1000
    log.close()
    assert log[0] == "line    0"
    assert log[-1] == "line 9999"
    assert len(log) > 20
    written = (tmp_path / "x.log").read_text().splitlines()
    assert written[:2] == ["line    0", "line    1"]
    assert written[-1] == TOO_LONG
    assert len(written) == 101


def test_a_log_below_the_limit_is_whole(tmp_path: Path) -> None:
    log = KeptLog(tmp_path / "x.log", limit=1000)
    lines = [f"line {number:4}" for number in range(100)]
    for line in lines:
        log.append(line)
    log.close()
    assert list(log) == lines
    assert (tmp_path / "x.log").read_text().splitlines() == lines


def test_a_log_keeps_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghij")
    log = KeptLog(tmp_path / "x.log")
    log.append("GET https://me:hunter22@hub/x with hf_abcdefghij")
    assert list(log) == ["GET https://***@hub/x with ***"]
    assert (tmp_path / "x.log").read_text() == "GET https://***@hub/x with ***\n"
    log.close()
