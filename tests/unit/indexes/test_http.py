"""Patience: when a request is repeated, how long apart, and what is never repeated."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from time import time

import pytest
import requests
from raw_server import http_reply, raw_server

from builder.errors import UsageError
from builder.indexes import http
from builder.indexes.http import (
    Client,
    Pace,
    SourceError,
    Stopped,
    body,
    failures,
    retry_after,
    with_retries,
)
from builder.indexes.settings import Sources

QUICK = Pace(attempts=3, first_s=0.0, longest_s=0.0)


class Failing:
    """An action that fails ``times`` times and then answers."""

    def __init__(self, times: int, *, retry: bool = True) -> None:
        self.left, self.retry, self.calls = times, retry, 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.left:
            raise SourceError("answered 503", retry=self.retry)
        return "answer"


def test_a_failure_that_passes_is_repeated() -> None:
    action = Failing(2)
    assert with_retries(action, QUICK, threading.Event()) == "answer"
    assert action.calls == 3


@pytest.mark.parametrize(("action", "calls"), [(Failing(9), 3), (Failing(9, retry=False), 1)])
def test_patience_ends(action: Failing, calls: int) -> None:
    with pytest.raises(SourceError, match="answered 503"):
        with_retries(action, QUICK, threading.Event())
    assert action.calls == calls


def test_a_pause_ends_at_once_when_the_work_is_called_off() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        with_retries(Failing(9), Pace(first_s=3600, longest_s=3600), stop)


def test_pauses_double_within_bounds_and_honour_the_server() -> None:
    pace = Pace(first_s=1.0, longest_s=10.0)
    for attempt, ceiling in enumerate((1, 2, 4, 8, 10, 10)):
        assert ceiling / 2 <= pace.wait_s(attempt, None) <= ceiling
    assert pace.wait_s(0, 7.0) == 7.0
    assert pace.wait_s(0, 9999.0) == 10.0


def test_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after("7") == 7.0
    assert retry_after(formatdate(time() - 60, usegmt=True)) == 0.0
    later = retry_after(formatdate(time() + 3600, usegmt=True))
    assert later is not None
    assert later > 3000
    assert retry_after("soon") is None
    assert retry_after(f"Mon, {'9' * 30} Jan 0001 00:00:00 -0000") is None
    assert retry_after(None) is None


@pytest.mark.parametrize(("error", "reason", "retry"), [
    (requests.exceptions.SSLError("host secret"), "certificate", False),
    (requests.exceptions.ProxyError("host secret"), "proxy", True),
    (requests.exceptions.ConnectTimeout("host secret"), "timed out", True),
    (requests.exceptions.ConnectionError("host secret"), "no connection", True),
    (requests.exceptions.InvalidURL("host secret"), "not a usable URL", False),
    (requests.exceptions.TooManyRedirects("host secret"), "connection broke", True),
])
def test_reasons_name_no_address(error: Exception, reason: str, retry: bool) -> None:
    with pytest.raises(SourceError, match=reason) as caught, failures():
        raise error
    assert "secret" not in str(caught.value)
    assert caught.value.retry is retry


def test_a_missing_certificate_bundle_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="certificate bundle"):
        Client(Sources("https://index.example", cert=str(tmp_path / "absent.pem")))


class Endless:
    """A reply whose body never ends, some bytes at a time."""

    def __init__(self) -> None:
        self.raw, self.closed, self.read = self, False, 0

    def read1(self, size: int, *, decode_content: bool) -> bytes:
        assert decode_content
        self.read += 1
        return b"x" * min(size, 100)

    def __enter__(self) -> Endless:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True


@pytest.mark.parametrize(("limit", "seconds", "said"), [
    (1_000, 60.0, "more than"), (10**9, 0.0, "not complete after 0 s")])
def test_an_endless_page_is_given_up_by_bytes_and_by_time(limit: int, seconds: float, said: str
                                                          ) -> None:
    reply = Endless()
    with pytest.raises(SourceError, match=said) as caught:
        body(reply, limit, seconds)
    assert reply.closed
    assert reply.read <= 11
    assert not caught.value.retry


class Trickle(Endless):
    """A body that comes byte by byte, on a clock of its own."""

    status_code, now = 200, 0.0

    def read1(self, size: int, *, decode_content: bool) -> bytes:
        self.now += 20.0
        self.read += 1
        return b"x"


def test_a_download_of_single_bytes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte begins the time limit of a socket anew, so that it never ends one."""
    reply = Trickle()
    monkeypatch.setattr(http, "monotonic", lambda: reply.now)
    with pytest.raises(SourceError, match="less than 120 kB in 120 s") as caught:
        list(http.chunks(reply))
    assert caught.value.retry
    assert reply.read == 7


@pytest.fixture
def _requests_drops_a_connection() -> Iterator[None]:
    """Collect what requests leaves open when it ends in a ValueError, here and not later."""
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore:unclosed")
@pytest.mark.usefixtures("_requests_drops_a_connection")
@pytest.mark.parametrize("location", [b"http://[", b"http://\xff\xfe/", b"http://127.0.0.1:x/"])
def test_a_redirect_to_no_address_is_one_reason(location: bytes) -> None:
    """Found by fuzzing: requests itself ends in a ValueError."""
    data = http_reply(301, Location="X").replace(b": X\r", b": " + location + b"\r")
    with raw_server([data]) as host, pytest.raises(SourceError, match="address"):
        Client(Sources("")).get(f"http://{host}/simple/a/")


def test_headers_of_single_bytes_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte begins a socket's own time limit anew."""
    monkeypatch.setattr(http, "HEADERS_S", 0.2)
    with raw_server([http_reply(200, X="x" * 20)], 0.02, whole_head=False) as host:
        for ask in (lambda: Client(Sources("")).get(f"http://{host}/simple/a/"),
                    lambda: Client(Sources("")).ask(f"http://{host}/a", {})):
            with pytest.raises(SourceError, match="its headers are not complete after"):
                ask()
