"""Requests to one registry: login, limits, retries, and errors that say what to do.

The login goes to the registry itself and to the token service that it names, each over HTTPS or on
this machine, and to no other host that an answer leads to.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import requests
from urllib3.exceptions import HTTPError

from builder.errors import NetworkError, command
from builder.limits import (
    ENGINE_TRANSFER_S,
    PAGE_S,
    REGISTRY_BYTES,
    REGISTRY_S,
    REGISTRY_UPLOAD_S,
    TooMuchError,
    bounded,
    within,
)
from builder.registry.body import Adapter, Whole
from builder.registry.credentials import Login, find_login
from builder.registry.reference import LOOPBACK, Reference
from builder.text import one_line, redact

CONNECT_TIMEOUT_S = 10.0
ANSWER_S = PAGE_S  # one answer, from its first byte to its last
HEADERS_S = REGISTRY_S + PAGE_S  # from a question to the end of its headers, over all redirects
ATTEMPTS = 5
FIRST_PAUSE_S = 0.5
RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 507})
_CHUNK_BYTES = 1 << 16
_TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")
_PARTS = re.compile(r"/(?:blobs|tags)/")
_PAIR = re.compile(r'([a-z_]+)="([^"]*)"')
MESSAGE_CHARS = 200
BROKEN = (requests.RequestException, HTTPError, OSError)


@dataclass(frozen=True)
class Reply:
    """What the registry answered: status, headers (by lower-case name), and a limited body."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def header(self, name: str) -> str:
        """Return a header, empty where it is missing."""
        return self.headers.get(name.lower(), "")

    @property
    def message(self) -> str:
        """Return what the registry's error says, in one visible line; empty where it says none."""
        try:
            error = json.loads(self.body)["errors"][0]
            text = f"{error.get('code', '')} {error.get('message', '')}"
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
            return ""
        return one_line(redact(text), MESSAGE_CHARS)


Body = bytes | Whole


class RegistryFault(Exception):  # noqa: N818 - a fault that may pass, not yet an error
    """The registry did not answer, or answered that it cannot now; asking again may help.

    ``status`` is its answer's, 0 without one.
    """

    def __init__(self, what: str, status: int = 0) -> None:
        super().__init__(what)
        self.status = status


class FailingError(NetworkError):
    """The registry answers, and says each time that it failed: its disk is full, or data damaged.

    Debian's registry leaves an empty file where its disk became full while it wrote the name of a
    tag, manifest or blob. It answers 500 for this one from then on, until it is written again.
    """


class OtherBytesError(NetworkError):
    """The registry gives other bytes than those of the digest: its data are damaged."""


class TooLongError(NetworkError):
    """The registry's answer is longer than any that is read."""


class Client:
    """One registry for one repository, with the user's login to it."""

    def __init__(self, reference: Reference, pause_s: float = FIRST_PAUSE_S) -> None:
        """Nothing is asked yet; ``pause_s`` is the first pause of a retry, which then doubles."""
        self.reference = reference
        self._pause_s = pause_s
        self._local = threading.local()
        self._lock = threading.Lock()
        self._authorization: dict[tuple[str, ...], str] = {}

    def url(self, path: str, repository: str = "") -> str:
        """Return the address of something in the repository, by default the image's own."""
        return f"{self.reference.api}/v2/{repository or self.reference.repository}/{path}"

    def ask(self, method: str, url: str, *, body: bytes = b"", kind: str = "",
            mounting: str = "") -> Reply:
        """Send one request, again while the registry cannot answer; for what may be repeated.

        Raises NetworkError where it still does not answer, and where the login is refused.
        """
        for attempt in range(ATTEMPTS):
            try:
                return self.once(method, url, body=body, kind=kind, mounting=mounting)
            except RegistryFault as fault:
                last = fault
                if attempt + 1 < ATTEMPTS:
                    self.pause(attempt)
        raise self.given_up(last, url)

    def once(self, method: str, url: str, *, body: Body = b"", kind: str = "",
             mounting: str = "", headers: Mapping[str, str] | None = None) -> Reply:
        """Send one request; ``mounting`` names another repository that it reads from.

        Raises RegistryFault where asking again may help, NetworkError where the login is refused.
        """
        sent = {"Accept-Encoding": "identity", **(headers or {})}
        if kind:
            sent["Accept" if method in ("GET", "HEAD") else "Content-Type"] = kind
        scopes = self._scopes(url, mounting, deletes=method == "DELETE")
        reply = self._send(method, url, body, sent, self._authorization.get(scopes, ""))
        if reply.status == 401 and self._is_own(url):
            header = self._authorize(reply, scopes)
            reply = self._send(method, url, body, sent, header)
        if reply.status in (401, 403):
            raise self._refused(reply)
        if reply.status in RETRIED_STATUS:
            raise RegistryFault(self.answered(reply), reply.status)
        return reply

    def download(self, url: str, limit: int) -> Iterator[bytes]:
        """Yield a blob piece by piece; raises NetworkError where it does not come whole.

        ``limit`` are the most bytes. What they are is for the caller to check.
        """
        if (there := self.ask("HEAD", url)).status != 200:
            raise self.given_up(RegistryFault(self.answered(there)), url)
        authorization = self._authorization.get(self._scopes(url, ""), "")
        headers = {"Accept-Encoding": "identity",
                   **({"Authorization": authorization} if authorization else {})}
        try:
            reply = self._opened("GET", url, headers=headers, allow_redirects=True)
            with reply:
                if reply.status_code != 200:
                    raise self.given_up(RegistryFault(f"it answered {reply.status_code}"))
                yield from bounded(_as_it_comes(reply), limit, ENGINE_TRANSFER_S)
        except (TooMuchError, ValueError, *BROKEN) as error:
            raise self.given_up(RegistryFault(f"a blob did not come whole ({error})")) from error

    def pause(self, attempt: int) -> None:
        """Wait before the next attempt: twice as long each time."""
        time.sleep(self._pause_s * 2**attempt)

    def answered(self, reply: Reply) -> str:
        """Say what the registry answered."""
        return f"it answered {reply.status}" + (f" ({reply.message})" if reply.message else "")

    def given_up(self, fault: RegistryFault, url: str = "") -> NetworkError:
        """Return the error for a registry that cannot be used now; ``url`` is what was asked."""
        failed = "; is its disk full?" if "it answered 5" in str(fault) else ""
        kind = FailingError if fault.status in (500, 507) else NetworkError
        if kind is FailingError:
            failed += f" What a full disk damaged, a push mends: {command('push', 'CELL')}"
        return kind(f"the registry cannot be used: {fault}", where=self._place(url),
                    next_step=f"run the same command again: it goes on where it stopped{failed}")

    def location(self, reply: Reply, asked: str) -> str:
        """Return where an upload goes on; raises NetworkError for an address not to be used."""
        try:
            url = urljoin(asked, reply.header("Location"))
        except ValueError:  # an address that is none
            url = ""
        if not reply.header("Location") or not _is_safe(url):
            raise NetworkError("the registry does not say where to upload to, or names an address "
                               "without encryption", where=str(self.reference),
                               next_step="check the registry's own address in its configuration")
        return url

    def _place(self, url: str) -> str:
        """Return which image an address is about, as people write it; else the client's own."""
        name = url.removeprefix(self.url("manifests/"))
        if name == url:
            return str(self.reference)
        mark = "@" if name.startswith("sha256:") else ":"
        return f"{self.reference.host}/{self.reference.repository}{mark}{name}"

    def _is_own(self, url: str) -> bool:
        return url.startswith(f"{self.reference.api}/")

    def _scopes(self, url: str, mounting: str, *, deletes: bool = False) -> tuple[str, ...]:
        """Return what the request needs access to; a request on a foreign host gets no login."""
        if not self._is_own(url):
            return ()
        own = self.reference.repository
        path = urlsplit(url).path.removeprefix("/v2/")
        if path.startswith(f"{own}/"):
            first = (f"repository:{own}:pull,push{',delete' if deletes else ''}",)
            return (*first, f"repository:{mounting}:pull") if mounting else first
        return (f"repository:{_PARTS.split(path)[0]}:pull",)

    def _send(self, method: str, url: str, body: Body, headers: Mapping[str, str],
              authorization: str) -> Reply:
        sent = {**headers, **({"Authorization": authorization} if authorization else {})}
        try:
            reply = self._opened(method, url, data=cast(Any, body or None), headers=sent,
                                 allow_redirects=method in ("GET", "HEAD"))
            with reply:
                data = b"" if method == "HEAD" else b"".join(bounded(
                    _as_it_comes(reply), REGISTRY_BYTES, ANSWER_S))
        except TooMuchError as error:
            kind, what = ((NetworkError, "the registry does not take an upload") if body else
                          (TooLongError, "the registry's answer is too long"))
            raise kind(f"{what}: {error}", where=str(self.reference),
                       next_step="is this address a registry?") from error
        except requests.exceptions.SSLError as error:
            raise NetworkError("the registry's certificate is not trusted",
                               where=self.reference.host,
                               next_step="set REQUESTS_CA_BUNDLE to its certificate") from error
        except BROKEN as error:
            raise RegistryFault("no answer in time" if isinstance(error, requests.Timeout)
                                else "no connection") from error
        except ValueError as error:  # a redirect whose address cannot be read
            raise RegistryFault("it leads to an unusable address") from error
        return Reply(reply.status_code, {k.lower(): v for k, v in reply.headers.items()}, data)

    def _opened(self, method: str, url: str, **options: Any) -> requests.Response:
        """Return an answer once its headers are there; a question's within HEADERS_S.

        A piece of an upload has REGISTRY_UPLOAD_S: its sending has a limit of silence alone.
        """
        session = self._session()

        def request() -> requests.Response:
            return session.request(
                method, url, stream=True, timeout=(CONNECT_TIMEOUT_S, REGISTRY_S),
                auth=lambda request: request,  # or requests takes a login from ~/.netrc
                **options)
        return within(REGISTRY_UPLOAD_S if options.get("data") else HEADERS_S, request,
                      requests.Response.close)

    def _session(self) -> requests.Session:
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
            self._local.session.mount("http://", Adapter())
            # A proxy of the environment cannot reach the registry of this machine.
            self._local.session.trust_env = not LOOPBACK.fullmatch(self.reference.host)
        session: requests.Session = self._local.session
        return session

    def _authorize(self, reply: Reply, scopes: tuple[str, ...]) -> str:
        """Return the header that the registry asks for, and keep it for the next requests."""
        login = find_login(self.reference.login_names)
        challenge = reply.header("WWW-Authenticate")
        scheme, _, rest = challenge.partition(" ")
        with self._lock:
            if scheme.lower() == "bearer":
                header = f"Bearer {self._token(dict(_PAIR.findall(rest)), scopes, login)}"
            elif login is not None and not login.is_token:
                header = login.basic
            else:
                raise self._refused(reply)
            self._authorization[scopes] = header
        return header

    def _token(self, challenge: Mapping[str, str], scopes: tuple[str, ...], login: Login | None
               ) -> str:
        realm = challenge.get("realm", "")
        if not _is_safe(realm):
            raise NetworkError("the registry asks for a login without encryption, or does not say "
                               "where to log in", where=self.reference.host,
                               next_step="use a registry with HTTPS")
        fields = [("service", challenge.get("service", "")),
                  *(("scope", scope) for scope in scopes)]
        if login is not None and login.is_token:
            form = [("grant_type", "refresh_token"), ("client_id", "sparkyard"),
                    ("refresh_token", login.secret), fields[0], ("scope", " ".join(scopes))]
            request = requests.Request("POST", realm, data=form)
        else:
            request = requests.Request("GET", realm, params=fields)
        try:
            prepared = request.prepare()
        except (requests.RequestException, ValueError) as error:
            raise NetworkError("the registry names a login service with an unusable address",
                               where=self.reference.host,
                               next_step="is this address a registry?") from error
        reply = self._send(str(prepared.method), str(prepared.url),
                           str(prepared.body or "").encode(), dict(prepared.headers),
                           login.basic if login is not None and not login.is_token else "")
        try:
            answer = json.loads(reply.body)
            token = answer.get("token") or answer["access_token"]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
            raise self._refused(reply) from None
        if not (isinstance(token, str) and _TOKEN.fullmatch(token)):
            raise self._refused(reply)
        return token

    def _refused(self, reply: Reply) -> NetworkError:
        said = f" ({reply.message})" if reply.message else ""
        return NetworkError(
            f"the registry refuses this user, status {reply.status}{said}",
            where=str(self.reference),
            next_step=f"log in with `docker login {self.reference.host}` as a user who may push")


def _is_safe(url: str) -> bool:
    """Say whether an address may be asked: over HTTPS, or on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.netloc) and (parts.scheme == "https" or (
        parts.scheme == "http" and LOOPBACK.fullmatch(parts.netloc) is not None))


def _as_it_comes(reply: requests.Response) -> Iterator[bytes]:
    """Yield what is there, be it one byte: a full chunk of a trickle would take for ever."""
    while data := reply.raw.read1(_CHUNK_BYTES, decode_content=False):
        yield data
