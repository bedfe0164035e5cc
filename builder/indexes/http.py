"""HTTP with patience: retries, ``Retry-After``, and reasons that name no host and no credential.

Everything that a request can say about itself here is one short reason ("no connection",
"answered 503"): addresses may hold tokens, so they never reach a message.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path
from time import monotonic, time
from typing import Any, TypeVar

import requests
from urllib3.exceptions import HTTPError, ReadTimeoutError

from builder.errors import HostError
from builder.indexes.settings import Sources
from builder.limits import PAGE_BYTES, PAGE_S, TooMuchError, bounded, within

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 30.0  # silence on an open connection
HEADERS_S = PAGE_S  # from the question to the end of the headers: they may come byte by byte
CHUNK_BYTES = 1 << 20
SLOW_S, SLOW_BYTES = 120.0, 120_000  # less than 1 kB a second is no download
RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})

T = TypeVar("T")


class SourceError(Exception):
    """A source did not give what it was asked for; ``reason`` is fit for people."""

    def __init__(self, reason: str, *, retry: bool, wait_s: float | None = None) -> None:
        """Say whether asking again may help, and how long the server wants to be left alone."""
        super().__init__(reason)
        self.reason, self.retry, self.wait_s = reason, retry, wait_s


class Stopped(Exception):  # noqa: N818 - not an error: another download failed or Ctrl-C came
    """The work was called off."""


@dataclass(frozen=True)
class Pace:
    """How often and how long apart a failing request is repeated: doubling, with jitter."""

    attempts: int = 5
    first_s: float = 0.5
    longest_s: float = 30.0

    def wait_s(self, attempt: int, asked_s: float | None) -> float:
        """Return the pause after the failed ``attempt`` (from 0), at least what was asked for."""
        ceiling: float = min(self.longest_s, self.first_s * 2**attempt)
        # Half fixed, half random: many clients that failed together must not return together.
        pause = ceiling / 2 + random.uniform(0, ceiling / 2)  # noqa: S311 - no secret
        return max(pause, min(asked_s or 0.0, self.longest_s))


def with_retries(action: Callable[[], T], pace: Pace, stop: threading.Event) -> T:
    """Return what ``action`` returns; repeat it while its SourceError says that may help."""
    attempt = 0
    while True:
        try:
            return action()
        except SourceError as failure:
            attempt += 1
            if not failure.retry or attempt >= pace.attempts:
                raise
            if stop.wait(pace.wait_s(attempt - 1, failure.wait_s)):
                raise Stopped from failure


class Client:
    """GET requests that honour proxies, netrc and the user's certificates; one session a thread."""

    def __init__(self, user: Sources) -> None:
        """Take certificates and proxy from ``user``; raises HostError for a missing bundle."""
        if user.cert and not Path(user.cert).exists():
            raise HostError("the configured certificate bundle does not exist", where=user.cert,
                            next_step="correct SSL_CERT_FILE, REQUESTS_CA_BUNDLE or pip's `cert`")
        self._user = user
        self._local = threading.local()

    def get(self, url: str, *, accept: str = "*/*", offset: int = 0) -> requests.Response:
        """Open ``url`` for streaming, from byte ``offset`` where the server can do that.

        Raises SourceError for everything but 200, 206, 404, 410 and 416.
        """
        # Identity: a wheel that a proxy compresses again could not be continued by ranges.
        headers = {"Accept": accept, "Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        return self._checked("GET", url, headers)

    def head(self, url: str) -> requests.Response:
        """Ask for the headers of ``url`` only; raises SourceError as ``get`` does.

        It leaves the connection open for the next question, which an unread body would not.
        """
        return self._checked("HEAD", url, {"Accept-Encoding": "identity"})

    def ask(self, url: str, headers: Mapping[str, str]) -> requests.Response:
        """Open ``url`` with headers of the caller's, who judges every status by itself.

        Raises SourceError where there is no answer at all. requests takes an Authorization header
        away when it is sent on to another host, and would put a netrc's in its place here.
        """
        own = (lambda request: request) if "Authorization" in headers else None
        with failures():
            return self._opened("GET", url, headers=dict(headers), stream=True, auth=own)

    def _checked(self, method: str, url: str, headers: dict[str, str]) -> requests.Response:
        with failures():
            reply = self._opened(method, url, headers=headers, stream=method == "GET",
                                 allow_redirects=True)
        if reply.status_code in (200, 206, 404, 410, 416):
            return reply
        reply.close()
        raise SourceError(f"answered {reply.status_code}" + _advice(reply.status_code),
                            retry=reply.status_code in RETRIED_STATUS,
                            wait_s=retry_after(reply.headers.get("Retry-After")))

    def _opened(self, method: str, url: str, **options: Any) -> requests.Response:
        """Return an answer whose headers came within HEADERS_S, over all redirects."""
        session = self._session()
        try:
            return within(HEADERS_S, lambda: session.request(
                method, url, timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S), **options),
                requests.Response.close)
        except TooMuchError as error:
            raise SourceError(f"its headers are {error}", retry=False) from error

    def _session(self) -> requests.Session:
        if not hasattr(self._local, "session"):
            session = requests.Session()
            session.headers["User-Agent"] = f"sparkyard/{version('sparkyard')}"
            session.verify = self._user.cert or True
            if self._user.proxy:
                session.proxies = {"http": self._user.proxy, "https": self._user.proxy}
            self._local.session = session
        found: requests.Session = self._local.session
        return found


def chunks(reply: requests.Response) -> Iterator[bytes]:
    """Yield the body as it stands on the wire.

    Raises SourceError when it ends early, and when hardly anything comes: a server that sends a
    byte now and then never goes silent.
    """
    begun, came = monotonic(), 0
    with failures(), reply:
        while data := reply.raw.read1(CHUNK_BYTES, decode_content=False):
            came += len(data)
            if monotonic() - begun > SLOW_S:
                if came < SLOW_BYTES:
                    raise SourceError(f"sent less than {SLOW_BYTES / 1000:g} kB in {SLOW_S:g} s",
                                      retry=True)
                begun, came = monotonic(), 0
            yield data


def body(reply: requests.Response, limit: int = PAGE_BYTES, seconds: float = PAGE_S) -> bytes:
    """Return a whole page; raises SourceError for one beyond ``limit`` bytes or ``seconds``."""
    try:
        with failures(), reply:
            return b"".join(bounded(_as_they_come(reply), limit, seconds))
    except TooMuchError as error:
        raise SourceError(f"its page is {error}", retry=False) from error


def _as_they_come(reply: requests.Response) -> Iterator[bytes]:
    """Yield what is there, be it one byte: a full chunk of a trickle would take for ever."""
    while data := reply.raw.read1(CHUNK_BYTES, decode_content=True):
        yield data


def retry_after(text: str | None) -> float | None:
    """Read ``Retry-After``, seconds or an HTTP date, as seconds from now."""
    if not text:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except (ValueError, OverflowError):
        return None


@contextmanager
def failures() -> Iterator[None]:
    """Turn what requests and urllib3 raise in the block into SourceError, in plain words."""
    try:
        yield
    except requests.exceptions.SSLError as error:
        raise SourceError("its certificate is not trusted (set SSL_CERT_FILE)", retry=False
                            ) from error
    except requests.exceptions.ProxyError as error:
        raise SourceError("the proxy refused", retry=True) from error
    except (requests.exceptions.Timeout, ReadTimeoutError) as error:
        raise SourceError("timed out", retry=True) from error
    except requests.exceptions.ConnectionError as error:
        raise SourceError("no connection", retry=True) from error
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema,
            requests.exceptions.MissingSchema) as error:
        raise SourceError("its address is not a usable URL", retry=False) from error
    except (requests.exceptions.RequestException, HTTPError, ConnectionError) as error:
        raise SourceError("the connection broke", retry=True) from error
    except ValueError as error:  # of requests itself: a redirect whose address cannot be read
        raise SourceError("it leads to an unusable address", retry=False) from error


def _advice(status: int) -> str:
    return " (credentials: netrc, or the index's own)" if status in (401, 403, 407) else ""
