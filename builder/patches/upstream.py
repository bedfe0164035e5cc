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
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import quote

import requests

from builder.http_client import Client, Pace, SourceError, chunks, patiently, retry_after
from builder.indexes import Sources
from builder.lock import write_text
from builder.patches.diffs import digest_of, find, keep

API = "https://api.github.com"  # GITHUB_API_URL overrides it, as in GitHub's own workflows
JSON, DIFF = "application/vnd.github+json", "application/vnd.github.diff"
SIZE_LIMIT = 64_000_000  # bytes of one answer; a diff may have 32 MB (patches.diff)
PATIENCE_S = 60.0  # a rate limit that ends later is reported, not waited for
PACE = Pace(attempts=4, longest_s=PATIENCE_S)


class Hosting:
    """Asks one hosting service; every method raises SourceError with a reason fit for people."""

    def __init__(self, user: Sources, cache: Path, *, api: str = "", token: str | None = None,
                 pace: Pace = PACE) -> None:
        """Take address and token from the environment where they are not given."""
        self._client, self._cache, self._pace = Client(user), cache, pace
        self._api = (api or os.environ.get("GITHUB_API_URL") or API).rstrip("/")
        self._token = token if token is not None else (
            os.environ.get("GITHUB_TOKEN") or os.environ.get("GH_TOKEN") or "")
        self._known: dict[tuple[str, str], bytes] = {}
        self._reached = False
        self._away: SourceError | None = None

    def pull(self, repository: str, number: int) -> dict[str, Any]:
        """Return a pull request as the API describes it."""
        found: dict[str, Any] = self._json(f"/repos/{repository}/pulls/{number}")
        return found

    def comments(self, repository: str, number: int) -> list[dict[str, Any]]:
        """Return the first hundred comments of a pull request."""
        found: list[dict[str, Any]] = self._json(
            f"/repos/{repository}/issues/{number}/comments?per_page=100")
        return found

    def commit(self, repository: str, name: str) -> tuple[str, str]:
        """Return the full names of a commit, named by hash, branch or tag, and its first parent."""
        found = self._json(f"/repos/{repository}/commits/{quote(name, safe='/')}?per_page=1")
        try:
            return str(found["sha"]), str(found["parents"][0]["sha"])
        except (KeyError, IndexError, TypeError) as error:
            raise SourceError("the commit has no parent to compare with", retry=False) from error

    def merge_base(self, repository: str, base: str, head: str) -> str:
        """Return the commit at which ``head`` left ``base``."""
        found = self._compare(repository, base, head)
        return str(found["merge_base_commit"]["sha"])

    def contains(self, repository: str, tag: str, commit: str) -> bool:
        """Say whether a tag's history has the commit."""
        return str(self._compare(repository, commit, tag)["status"]) in ("ahead", "identical")

    def releases(self, repository: str) -> list[tuple[str, str]]:
        """Return the newest hundred releases as (moment, tag), the oldest first."""
        found = self._json(f"/repos/{repository}/releases?per_page=100")
        return sorted((str(one["published_at"]), str(one["tag_name"])) for one in found
                      if one.get("published_at") and not one.get("prerelease"))

    def diff(self, repository: str, base: str, head: str) -> bytes:
        """Return the difference of two commits as the service writes it."""
        return self._get(f"/repos/{repository}/compare/{base}...{head}", DIFF)

    def _compare(self, repository: str, base: str, head: str) -> dict[str, Any]:
        ends = f"{quote(base, safe='')}...{quote(head, safe='')}"
        found: dict[str, Any] = self._json(f"/repos/{repository}/compare/{ends}?per_page=1")
        return found

    def _json(self, path: str) -> Any:
        try:
            return json.loads(self._get(path, JSON))
        except ValueError as error:
            raise SourceError("its answer is not JSON", retry=False) from error

    def _get(self, path: str, accept: str) -> bytes:
        """Ask once a run; the answer of an earlier run counts while the service says so.

        A service that cannot be reached at all is not tried again in the same run.
        """
        if self._away is not None:
            raise self._away
        known = self._known.get((path, accept))
        if known is None:
            try:
                known = patiently(lambda: self._ask(path, accept), self._pace, threading.Event())
            except SourceError as failure:
                self._away = None if self._reached else failure
                raise
            self._known[path, accept] = known
        return known

    def _ask(self, path: str, accept: str) -> bytes:
        note = self._cache / "patches" / "answers" / digest_of(f"{path} {accept}".encode())
        etag, before = self._before(note)
        headers = {"Accept": accept, "Accept-Encoding": "identity",
                   "X-GitHub-Api-Version": "2022-11-28"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
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
            write_text(note, json.dumps({"etag": reply.headers["ETag"],
                                         "sha256": keep(self._cache, body)}))
        return body

    def _before(self, note: Path) -> tuple[str, bytes | None]:
        try:
            kept = json.loads(note.read_text(encoding="utf-8"))
            return str(kept["etag"]), find(self._cache, str(kept["sha256"]))
        except (OSError, ValueError, KeyError, TypeError):
            return "", None  # never asked, or unreadable: asked as if for the first time


def refusal(status: int, headers: Mapping[str, str], *, has_token: bool) -> SourceError:
    """Return why the service did not answer, and whether waiting helps."""
    advice = "" if has_token else "; GITHUB_TOKEN allows more"
    if status in (403, 429) and headers.get("x-ratelimit-remaining") == "0":
        wait = _seconds_until(headers.get("x-ratelimit-reset", ""))
        until = datetime.fromtimestamp(time() + wait, UTC).strftime("%H:%M UTC")
        return SourceError(f"its rate limit is used up until {until}{advice}",
                           retry=wait <= PATIENCE_S, wait_s=wait)
    if status in (403, 429) and (wait_s := retry_after(headers.get("Retry-After"))) is not None:
        return SourceError(f"it wants to be left alone for {wait_s:.0f} s{advice}",
                           retry=wait_s <= PATIENCE_S, wait_s=wait_s)
    words = {401: "it does not accept the token of GITHUB_TOKEN",
             403: f"it refuses{advice}",
             404: "it has no such thing" + ("" if has_token else
                                            ", or shows it to a GITHUB_TOKEN only"),
             406: "the diff is larger than it serves", 422: "it cannot compare these commits"}
    return SourceError(words.get(status, f"it answered {status}"),
                       retry=status in (408, 429, 500, 502, 503, 504))


def _seconds_until(moment: str) -> float:
    try:
        return max(0.0, float(moment) - time())
    except ValueError:
        return PATIENCE_S + 1


def _body(reply: requests.Response) -> bytes:
    """Return the body; raises SourceError for one beyond all measure or one that broke off."""
    data = bytearray()
    for chunk in chunks(reply):
        data += chunk
        if len(data) > SIZE_LIMIT:
            raise SourceError(f"its answer is larger than {SIZE_LIMIT} bytes", retry=False)
    return bytes(data)
