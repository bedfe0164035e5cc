"""What comes from outside is read up to a limit, in bytes and in seconds."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.errors import UsageError
from builder.limits import EMULATED, TooMuchError, bounded, patience, read_file, within


def test_a_file_up_to_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    assert read_file(path, 10, "record") == b"x" * 10


def test_a_larger_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2_000_001)
    with pytest.raises(UsageError, match="this record is larger than 2 MB"):
        read_file(path, 2_000_000, "record")


def test_what_is_no_file_is_refused_and_never_hangs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, tmp_path / "socket"):
        with pytest.raises(UsageError, match="a recipe must be a regular file"):
            read_file(path, 10, "recipe")


def test_a_missing_file_is_the_callers_to_explain(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none", 10, "recipe")


def test_chunks_pass_up_to_the_limit() -> None:
    assert list(bounded(iter([b"ab", b"c"]), 3)) == [b"ab", b"c"]
    with pytest.raises(TooMuchError, match="more than"):
        list(bounded(iter([b"ab", b"c"]), 2))


def test_endless_chunks_that_trickle_are_given_up() -> None:
    def trickle() -> Iterator[bytes]:
        while True:
            time.sleep(0.01)
            yield b"x"
    with pytest.raises(TooMuchError, match="not complete after 0 s"):
        list(bounded(trickle(), 10**9, 0.05))


def test_what_comes_too_late_is_closed() -> None:
    end, closed = threading.Event(), threading.Event()
    with pytest.raises(TooMuchError):
        within(0.01, lambda: end.wait(5), lambda result: closed.set())
    end.set()
    assert closed.wait(5)


def test_how_slow_an_emulated_server_may_be_is_said_in_one_place() -> None:
    assert (patience(emulated=False), patience(emulated=True)) == (1.0, EMULATED)
    own = re.compile(r"if [\w.]*emulated else [\d.]+$", re.MULTILINE)
    package = Path(__file__).parents[2] / "builder"
    assert [path.name for path in package.rglob("*.py")
            if own.search(path.read_text("utf-8").replace(")", ""))] == ["limits.py"]
