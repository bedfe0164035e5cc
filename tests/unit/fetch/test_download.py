"""One file that grows: locked, hashed as it is written, and gone when nothing is in it."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests

from builder.fetch.download import extent, partial
from builder.indexes.http import Stopped


def reply(status: int, **headers: str) -> requests.Response:
    answer = requests.Response()
    answer.status_code = status
    answer.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return answer


@pytest.mark.parametrize(("answer", "expected"), [
    (reply(200), (0, None)), (reply(200, Content_Length="12"), (0, 12)),
    (reply(200, Content_Length="-1"), (0, None)), (reply(200, Content_Length="a lot"), (0, None)),
    (reply(200, Content_Length="²"), (0, None)), (reply(200, Content_Length="9" * 5000), (0, None)),
    (reply(206, Content_Range=f"bytes {'9' * 5000}-/*"), (-1, None)),
    (reply(206, Content_Range="bytes 5-9/10"), (5, 10)),
    (reply(206, Content_Range="bytes 5-/*"), (5, None)),
    (reply(206, Content_Range="lines 1-2/3"), (-1, None)), (reply(206), (-1, None))])
def test_where_a_body_begins_and_how_long_the_file_is(
        answer: requests.Response, expected: tuple[int, int | None]) -> None:
    assert extent(answer) == expected


def test_what_an_earlier_run_left_is_hashed_and_counted(tmp_path: Path) -> None:
    path, counts = tmp_path / "part", list[int]()
    path.write_bytes(b"half")
    with partial(path, threading.Event(), counts.append) as growing:
        growing.write(b" and half")
        assert growing.sha256 == hashlib.sha256(b"half and half").hexdigest()
        assert growing.size == sum(counts) == 13
    assert path.read_bytes() == b"half and half"


def test_a_restart_forgets_everything(tmp_path: Path) -> None:
    path, counts = tmp_path / "part", list[int]()
    with partial(path, threading.Event(), counts.append) as growing:
        growing.write(b"wrong")
        growing.restart()
        assert (growing.size, sum(counts)) == (0, 0)
        assert growing.sha256 == hashlib.sha256(b"").hexdigest()
    assert not path.exists(), "nothing in it is worth continuing"


def test_the_second_waits_and_can_be_called_off(tmp_path: Path) -> None:
    path, stop = tmp_path / "part", threading.Event()
    with partial(path, threading.Event(), lambda _: None) as growing:
        growing.write(b"x")
        stop.set()
        with pytest.raises(Stopped), partial(path, stop, lambda _: None):
            pass
    assert path.read_bytes() == b"x"


def test_a_file_that_was_moved_while_one_waited_is_opened_anew(tmp_path: Path) -> None:
    path, seen = tmp_path / "part", SimpleNamespace(size=-1)

    def second() -> None:
        with partial(path, threading.Event(), lambda _: None) as growing:
            seen.size = growing.size
    with partial(path, threading.Event(), lambda _: None) as growing:
        growing.write(b"complete")
        waiting = threading.Thread(target=second)
        waiting.start()
        path.rename(tmp_path / "final")
    waiting.join()
    assert seen.size == 0
    assert (tmp_path / "final").read_bytes() == b"complete"
