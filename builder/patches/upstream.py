"""The hosting service of patches, through GitHub's REST API: pull requests, commits and diffs.

Questions are conditional: an answer that is unchanged costs nothing of the rate limit
(https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api). A token
comes from GITHUB_TOKEN or GH_TOKEN, and goes to the service alone, never into a message or a file.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import time
from typing import TypeVar
from urllib.parse import quote

import requests
from pydantic import TypeAdapter, ValidationError

from builder import console, limits
from builder.files import write_text
from builder.indexes.http import Client, Pace, SourceError, failures, retry_after, with_retries
from builder.indexes.settings import Sources
from builder.limits import TooMuchError, bounded
from builder.patches.answers import Comment, Commit, Comparison, Pull, Release
from builder.patches.diffs import cache_errors, digest_of, find, keep

API = "https://api.github.com"  # GITHUB_API_URL overrides it, as in GitHub's own workflows
JSON, DIFF = "application/vnd.github+json", "application/vnd.github.diff"
CHUNK_BYTES = 1 << 16
PATIENCE_S = 60.0  # a rate limit that ends later is reported, not waited for
LONGEST_S = 86_400.0  # whatever a server says, no limit is told to last longer
PACE = Pace(attempts=4, longest_s=PATIENCE_S)

T = TypeVar("T")


class RateLimitError(SourceError):
    """The service wants no more questions for now.

    The reason goes into locks, so it has no time of day; ``wait_s`` does tell how long.
    """

    def __init__(self, wait_s: float, advice: str) -> None:
        """Be worth another try where the limit ends soon."""
        self.until_s = min(wait_s, LONGEST_S)
        super().__init__(f"its rate limit is used up{advice}", retry=self.until_s <= PATIENCE_S,
                         wait_s=self.until_s)


class Hosting:
    """Asks one hosting service; every method raises SourceError with a reason fit for people."""

    def __init__(self, user: Sources, cache: Path, *, api: str = "", token: str | None = None,
                 pace: Pace = PACE) -> None:
        """Take address and token from the environment where they are not given."""
        self._client, self._cache, self._pace = Client(user), cache, pace
        self._api = (api or os.environ.get("GITHUB_API_URL") or API).rstrip("/")
        self._token = (token if token is not None else (
            os.environ.get("GITHUB_TOKEN") or os.environ.get("GH_TOKEN") or "")).strip()
        self._known: dict[tuple[str, str], bytes | SourceError] = {}
        self._reached = False
        self._away: SourceError | None = None

    def pull(self, repository: str, number: int) -> Pull:
        """Return a pull request."""
        return self._answer(Pull, f"/repos/{repository}/pulls/{number}")

    def comments(self, repository: str, number: int) -> list[Comment]:
        """Return the first hundred comments of a pull request."""
        return self._answer(list[Comment],
                            f"/repos/{repository}/issues/{number}/comments?per_page=100")

    def commit(self, repository: str, name: str) -> Commit:
        """Return a commit, named by hash, branch or tag."""
        return self._answer(
            Commit, f"/repos/{repository}/commits/{quote(name, safe='/')}?per_page=1")

    def merge_base(self, repository: str, base: str, head: str) -> str:
        """Return the commit at which ``head`` left ``base``."""
        return self._compare(repository, base, head).merge_base.sha

    def contains(self, repository: str, tag: str, commit: str) -> bool:
        """Say whether a tag's history has the commit."""
        return self._compare(repository, commit, tag).status in ("ahead", "identical")

    def releases(self, repository: str) -> list[tuple[str, str]]:
        """Return the newest hundred releases as (moment, tag), the oldest first."""
        found = self._answer(list[Release], f"/repos/{repository}/releases?per_page=100")
        return sorted((one.published_at, one.tag_name) for one in found
                      if one.published_at and not one.prerelease)

    def diff(self, repository: str, base: str, head: str) -> bytes:
        """Return the difference of two commits as the service writes it."""
        return self._get(f"/repos/{repository}/compare/{base}...{head}", DIFF)

    def _compare(self, repository: str, base: str, head: str) -> Comparison:
        ends = f"{quote(base, safe='')}...{quote(head, safe='')}"
        return self._answer(Comparison, f"/repos/{repository}/compare/{ends}?per_page=1")

    def _answer(self, form: type[T], path: str) -> T:
        try:
            return TypeAdapter(form).validate_python(json.loads(self._get(path, JSON)))
        except ValidationError as error:
            raise SourceError("its answer does not match its API", retry=False) from error
        except (ValueError, RecursionError) as error:
            raise SourceError("its answer is not JSON", retry=False) from error

    def _get(self, path: str, accept: str) -> bytes:
        """Ask once a run; the answer of an earlier run counts while the service says so.

        A service that cannot be reached at all, or wants no more questions, is not asked again
        in the same run.
        """
        known = self._known.get((path, accept), self._away)
        if known is None:
            known = self._patiently(path, accept)
            self._known[path, accept] = known
        if isinstance(known, SourceError):
            raise known
        return known

    def _patiently(self, path: str, accept: str) -> bytes | SourceError:
        try:
            return with_retries(lambda: self._ask(path, accept), self._pace, threading.Event())
        except RateLimitError as failure:
            until = datetime.fromtimestamp(time() + failure.until_s, UTC)
            console.warn("the rate limit of the patch hosting service is used up until "
                         f"{until:%Y-%m-%d %H:%M} UTC")
            self._away = failure
            return failure
        except SourceError as failure:
            self._away = None if self._reached else failure
            return failure

    def _ask(self, path: str, accept: str) -> bytes:
        note = self._cache / "patches" / "answers" / digest_of(
            f"{self._api} {path} {accept}".encode())
        etag, before = self._before(note)
        headers = {"Accept": accept, "Accept-Encoding": "identity",
                   "X-GitHub-Api-Version": "2022-11-28", **self._authorization()}
        if before is not None:
            headers["If-None-Match"] = etag
        with self._client.ask(self._api + path, headers) as reply:
            self._reached = True
            if reply.status_code == 304 and before is not None:
                return before
            if reply.status_code != 200:
                raise refusal(reply.status_code, reply.headers, has_token=bool(self._token))
            body = _body(reply)
        if "ETag" in reply.headers:
            text = json.dumps({"etag": reply.headers["ETag"], "sha256": keep(self._cache, body)})
            with cache_errors(self._cache):
                write_text(note, text)
        return body

    def _authorization(self) -> dict[str, str]:
        if not self._token:
            return {}
        if not (self._token.isascii() and self._token.isprintable()):
            raise SourceError("GITHUB_TOKEN contains characters that no token has", retry=False)
        return {"Authorization": f"Bearer {self._token}"}

    def _before(self, note: Path) -> tuple[str, bytes | None]:
        try:
            kept = json.loads(note.read_text(encoding="utf-8"))
            return str(kept["etag"]), find(self._cache, str(kept["sha256"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
            return "", None  # never asked, or unreadable: asked as if for the first time


def refusal(status: int, headers: Mapping[str, str], *, has_token: bool) -> SourceError:
    """Return why the service did not answer, and whether waiting helps."""
    advice = "" if has_token else "; set GITHUB_TOKEN for a higher limit"
    if status in (403, 429) and (wait_s := _limited_s(headers)) is not None:
        return RateLimitError(wait_s, advice)
    words = {401: "it rejected the token in GITHUB_TOKEN (HTTP 401)",
             403: f"it denied access (HTTP 403){advice}",
             404: "not found (HTTP 404)" + ("" if has_token else
                                            "; if it is private, set GITHUB_TOKEN"),
             406: "the diff is too large for the service (HTTP 406)",
             422: "it cannot compare these commits (HTTP 422)"}
    return SourceError(words.get(status, f"it answered with HTTP {status}"),
                       retry=status in (408, 429, 500, 502, 503, 504))


def _limited_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until a rate limit ends, None where the headers speak of none."""
    if headers.get("x-ratelimit-remaining") != "0":
        return retry_after(headers.get("Retry-After"))
    try:
        return max(0.0, float(headers.get("x-ratelimit-reset", "")) - time())
    except ValueError:
        return LONGEST_S


def _body(reply: requests.Response) -> bytes:
    """Return the body; raises SourceError for one that is too large, too slow or cut off."""
    try:
        with failures(), reply:
            # read1 returns what has come: read would wait for a whole piece, however slow.
            pieces = iter(partial(reply.raw.read1, CHUNK_BYTES), b"")
            return b"".join(bounded(pieces, limits.PAGE_BYTES, limits.HOSTING_S))
    except TooMuchError as error:
        raise SourceError(f"its answer is too much: {error}", retry=False) from error
