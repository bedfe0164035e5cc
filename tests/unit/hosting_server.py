"""A stand-in for the hosting service of patches: its REST API over a real git repository.

It answers what ``builder.patches.upstream`` asks, from git itself: pull requests, commits,
comparisons as JSON or as a diff, releases, comments. With tags for conditional requests, a token,
a rate limit, and the faults that a test wants.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": "/dev/null", "PATH": "/usr/bin:/bin",
            "GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}


@dataclass
class HostingServer:
    """The repository ``owner/name`` and how the service behaves."""

    folder: Path
    url: str = ""
    token: str = ""  # asked for where it is set
    pulls: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: dict[int, list[str]] = field(default_factory=dict)
    releases: list[dict[str, Any]] = field(default_factory=list)
    faults: list[tuple[int, dict[str, str]]] = field(default_factory=list)  # one for each request
    other_bytes: bytes = b""  # put before every diff
    page: bytes = b""  # served in place of every diff
    requests: list[tuple[str, str, int]] = field(default_factory=list)  # path, accept, status
    headers: list[dict[str, str]] = field(default_factory=list)

    def git(self, *words: str) -> str:
        """Run git in the repository."""
        return subprocess.run(["git", *words], cwd=self.folder, check=True, env=IDENTITY,
                              capture_output=True, text=True).stdout

    def commit(self, files: dict[str, str | None], message: str = "change", *,
               on: str = "main") -> str:
        """Commit files (None deletes) on a branch, made at ``main`` where it is new."""
        if on != "main" and on not in self.git("branch", "--format=%(refname:short)").split():
            self.git("branch", on, "main")
        if self.git("branch", "--show-current").strip() != on:
            self.git("switch", "-q", on)
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def open_pull(self, number: int, head: str, title: str = "a title") -> None:
        """Open a pull request of a branch or commit against main."""
        self.pulls[number] = {"number": number, "state": "open", "title": title, "merged": False,
                              "merged_at": None, "merge_commit_sha": None, "body": "",
                              "head": {"sha": self.git("rev-parse", head).strip()},
                              "base": {"sha": self.git("rev-parse", "main").strip()}}

    def merge(self, number: int, moment: str = "2026-04-01T00:00:00Z") -> str:
        """Squash a pull request onto main."""
        pull = self.pulls[number]
        self.git("switch", "-q", "main")
        self.git("merge", "-q", "--squash", pull["head"]["sha"])
        self.git("commit", "-q", "-m", f"{pull['title']} (#{number})")
        commit = self.git("rev-parse", "HEAD").strip()
        pull.update(state="closed", merged=True, merged_at=moment, merge_commit_sha=commit)
        return commit

    def asked(self, part: str) -> list[tuple[str, str, int]]:
        """Return the requests whose path holds ``part``."""
        return [one for one in self.requests if part in one[0]]

    def answer(self, path: str, accept: str) -> tuple[int, bytes]:
        """Return status and body for a path of the API."""
        words = [unquote(word) for word in urlsplit(path).path.split("/")[1:]]
        if words[:3] != ["repos", "owner", "name"]:
            return 404, b"{}"
        try:
            return self._of(words[3], words[4:], accept)
        except (KeyError, subprocess.CalledProcessError):
            return 404, b"{}"

    def _of(self, what: str, rest: list[str], accept: str) -> tuple[int, bytes]:
        if what == "pulls":
            return 200, json.dumps(self.pulls[int(rest[0])]).encode()
        if what == "issues":
            texts = self.comments.get(int(rest[0]), [])
            return 200, json.dumps([{"body": text} for text in texts]).encode()
        if what == "releases":
            return 200, json.dumps(self.releases).encode()
        if what == "commits":
            line = self.git("rev-list", "--parents", "-n", "1", "/".join(rest)).split()
            moment, message = self.git("show", "-s", "--format=%aI%n%B", line[0]).split("\n", 1)
            written = {"message": message.strip(), "author": {"date": moment}}
            return 200, json.dumps({"sha": line[0], "commit": written, "parents": [
                {"sha": parent} for parent in line[1:]]}).encode()
        base, _, head = "/".join(rest).partition("...")
        merge_base = self.git("merge-base", base, head).strip()
        if accept.endswith(".diff"):
            return 200, self.page or self.other_bytes + self.git("diff", merge_base, head).encode()
        ahead = int(self.git("rev-list", "--count", f"{base}..{head}"))
        behind = int(self.git("rev-list", "--count", f"{head}..{base}"))
        status = {(True, True): "diverged", (True, False): "ahead", (False, True): "behind",
                  (False, False): "identical"}[ahead > 0, behind > 0]
        found = {"status": status, "merge_base_commit": {"sha": merge_base}}
        return 200, json.dumps(found).encode()


@contextmanager
def serve_hosting(folder: Path) -> Iterator[HostingServer]:
    """Make a repository in ``folder`` and serve it on a free port until the block ends."""
    folder.mkdir(parents=True)
    hosting = HostingServer(folder)
    hosting.git("init", "-q", "-b", "main")
    handler = type("Handler", (_Handler,), {"hosting": hosting})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hosting.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield hosting
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hosting: HostingServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        hosting = self.hosting
        accept = self.headers.get("Accept", "")
        status, body, extra = 200, b"{}", dict[str, str]()
        if hosting.faults:
            status, extra = hosting.faults.pop(0)
        elif hosting.token and self.headers.get("Authorization") != f"Bearer {hosting.token}":
            status = 401
        else:
            status, body = hosting.answer(self.path, accept)
            extra = {"ETag": f'"{hashlib.sha256(body).hexdigest()[:16]}"'}
            if status == 200 and self.headers.get("If-None-Match") == extra["ETag"]:
                status, body = 304, b""
        hosting.requests.append((self.path, accept, status))
        hosting.headers.append(dict(self.headers.items()))
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **extra}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Keep quiet."""
