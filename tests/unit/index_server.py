"""A package index on this machine, with the faults that real ones have.

A fake for faults only: it serves the Simple API (HTML or JSON) and files, with or without ranges,
and does to each path what the test asks for, once a request.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from builder.locking.lock import LockedWheel

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
CHUNK = 16384


@dataclass(frozen=True)
class Fault:
    """What happens to one request: a status instead of the file, or a body cut off."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None


@dataclass
class IndexServer:
    """The index's contents and behaviour; ``sent`` counts the body bytes of each path."""

    files: dict[str, bytes] = field(default_factory=dict)
    listed: dict[str, str] = field(default_factory=dict)  # other digests than the true ones
    faults: dict[str, list[Fault]] = field(default_factory=lambda: defaultdict(list))
    always: dict[str, Fault] = field(default_factory=dict)
    ranges: bool = True
    as_json: bool = False
    chunk_delay_s: float = 0.0
    hold_at: int | None = None  # bytes of an answer after which nothing more comes until ``go_on``
    go_on: threading.Event = field(default_factory=threading.Event)
    sent: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    def add(self, name: str, data: bytes, *, serve: bytes | None = None, index: str = "default"
            ) -> LockedWheel:
        """Offer a wheel; ``serve`` are the bytes really sent, where they differ from the lock."""
        wheel = LockedWheel(name=name, version="1.0", file=f"{name}-1.0-py3-none-any.whl",
                            sha256=hashlib.sha256(data).hexdigest(), size=len(data), index=index)
        self.files[wheel.file] = data if serve is None else serve
        self.listed[wheel.file] = wheel.sha256
        return wheel

    def paths(self, part: str) -> list[str]:
        """Return the requested paths that hold ``part``."""
        return [path for path, _ in self.requests if part in path]


@contextmanager
def serve_index() -> Iterator[IndexServer]:
    """Run an index on a free port of this machine until the block ends."""
    index = IndexServer()
    handler = type("Handler", (_Handler,), {"index": index})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    index.url = f"http://127.0.0.1:{server.server_address[1]}/simple"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    index: IndexServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        index = self.index
        index.requests.append((self.path, dict(self.headers.items())))
        waiting = index.faults[self.path]
        fault = waiting.pop(0) if waiting else index.always.get(self.path, Fault())
        if fault.status:
            self._reply(fault.status, b"fault", fault.headers)
        elif self.path.startswith("/simple/"):
            self._listing(self.path.split("/")[2])
        elif self.path == "/flat.html":
            self._reply(200, "".join(map(self._anchor, index.files)).encode(),
                        {"Content-Type": "text/html"})
        else:
            self._file(self.path.rpartition("/")[2], fault)

    def _listing(self, project: str) -> None:
        files = [name for name in self.index.files if name.startswith(f"{project}-")]
        if not files:
            self._reply(404, b"none", {})
        elif self.index.as_json:
            entries: list[dict[str, Any]] = [
                {"filename": name, "url": f"../../files/{name}",
                 "hashes": {"sha256": self.index.listed[name]}} for name in files]
            page = {"meta": {"api-version": "1.0"}, "name": project, "files": entries}
            self._reply(200, json.dumps(page).encode(), {"Content-Type": JSON_TYPE})
        else:
            self._reply(200, "".join(map(self._anchor, files)).encode(),
                        {"Content-Type": "text/html"})

    def _anchor(self, name: str) -> str:
        return f'<a href="/files/{name}#sha256={self.index.listed[name]}">{name}</a>\n'

    def _file(self, name: str, fault: Fault) -> None:
        if name not in self.index.files:
            self._reply(404, b"none", {})
            return
        data = self.index.files[name]
        asked = self.headers.get("Range")
        if not asked or not self.index.ranges:
            self._reply(200, data, {}, fault.cut_after)
            return
        first = int(asked.removeprefix("bytes=").rstrip("-"))
        if first >= len(data):
            self._reply(416, b"", {})
            return
        extent = f"bytes {first}-{len(data) - 1}/{len(data)}"
        self._reply(206, data[first:], {"Content-Range": extent}, fault.cut_after)

    def _reply(self, status: int, body: bytes, headers: dict[str, str],
               cut_after: int | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        for start in range(0, len(body), CHUNK):
            part = body[start:start + CHUNK][:None if cut_after is None else cut_after - start]
            try:
                self.wfile.write(part)
            except ConnectionError:
                break
            self.index.sent[self.path] += len(part)
            if cut_after is not None and start + CHUNK >= cut_after:
                break
            time.sleep(self.index.chunk_delay_s)
            if self.index.hold_at is not None and start + CHUNK >= self.index.hold_at:
                self.index.go_on.wait()
        if cut_after is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Keep quiet."""
