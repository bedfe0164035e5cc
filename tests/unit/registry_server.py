"""A stand-in for a registry: the upload half of its HTTP API, with the faults that a test wants."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class RegistryServer:
    """What the registry holds, how it behaves, and what it was asked."""

    host: str = ""
    user: str = ""  # "name:password", asked for where it is set
    bearer: bool = False  # by way of a token service
    realm: str = ""  # of the token service; empty: this server
    blobs: dict[tuple[str, str], bytes] = field(default_factory=dict)  # repository, digest
    manifests: dict[tuple[str, str], bytes] = field(default_factory=dict)  # repository, tag
    uploads: dict[str, bytearray] = field(default_factory=dict)
    faults: dict[str, list[int]] = field(default_factory=dict)  # method: statuses, one a request
    drops: dict[str, int] = field(default_factory=dict)  # method: the nth request gets no answer
    swallow: bool = False  # says that it took a blob, and does not keep it
    wrong_size: bool = False  # announces other sizes than it has
    wrong_digest: bool = False  # announces another digest than was asked for
    other_manifest: bytes = b""  # given back in place of every manifest that was put
    foreign: str = ""  # uploads go on at this address
    endless: bool = False  # answers without end
    requests: list[tuple[str, str]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    def count(self, method: str) -> int:
        """Return how many requests of this method came."""
        return sum(one == method for one, _ in self.requests)


def digest_of(data: bytes) -> str:
    """Return ``sha256:…`` of the bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@contextmanager
def serving(**facts: Any) -> Iterator[RegistryServer]:
    """Serve a registry on this machine for the length of the block."""
    state = RegistryServer(**facts)
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(state)) as server:
        state.host = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


def _handler(state: RegistryServer) -> type[BaseHTTPRequestHandler]:  # noqa: C901
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            if "Content_Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def serve(self) -> None:
            self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            state.requests.append((self.command, self.path))
            if state.drops.get(self.command) == state.count(self.command):
                self.close_connection = True
                return
            if state.endless:
                self.answer(200, b"x" * 5_000_000)
                return
            statuses = state.faults.get(self.command)
            if statuses and (status := statuses.pop(0)):
                self.answer(status, json.dumps({"errors": [
                    {"code": "FAULT", "message": "as the test wants"}]}).encode())
                return
            parts = urlsplit(self.path)
            self.query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            if parts.path == "/token":
                self.token()
            elif self.is_allowed():
                self.route(parts.path)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = serve  # noqa: N815

        def token(self) -> None:
            state.logins.append(self.headers.get("Authorization", ""))
            wanted = "Basic " + base64.b64encode(state.user.encode()).decode()
            good = state.logins[-1] == wanted
            self.answer(200 if good else 401, b'{"token": "t0"}' if good else b"{}")

        def is_allowed(self) -> bool:
            if not state.user:
                return True
            given = self.headers.get("Authorization", "")
            basic = "Basic " + base64.b64encode(state.user.encode()).decode()
            if given == ("Bearer t0" if state.bearer else basic):
                return True
            realm = state.realm or f"http://{state.host}/token"
            self.answer(401, WWW_Authenticate=f'Bearer realm="{realm}",service="s"'
                        if state.bearer else 'Basic realm="r"')
            return False

        def route(self, path: str) -> None:
            if found := re.fullmatch(r"/v2/(.+)/blobs/uploads/", path):
                self.start(found[1])
            elif found := re.fullmatch(r"/v2/(.+)/blobs/uploads/(\w+)", path):
                self.upload(found[1], found[2])
            elif found := re.fullmatch(r"/v2/(.+)/blobs/(sha256:\w+)", path):
                self.blob(found[1], found[2])
            elif found := re.fullmatch(r"/v2/(.+)/tags/list", path):
                there = any(found[1] == name for name, _ in (*state.blobs, *state.manifests))
                self.answer(200 if there else 404, b"{}")
            elif found := re.fullmatch(r"/v2/(.+)/manifests/(.+)", path):
                self.manifest(found[1], found[2])
            else:
                self.answer(404)

        def start(self, repository: str) -> None:
            source = (self.query.get("from", ""), self.query.get("mount", ""))
            if source in state.blobs:
                state.blobs[repository, source[1]] = state.blobs[source]
                self.answer(201)
                return
            name = f"u{len(state.uploads)}"
            state.uploads[name] = bytearray()
            self.answer(202, Location=f"{state.foreign}/v2/{repository}/blobs/uploads/{name}")

        def upload(self, repository: str, name: str) -> None:
            data = state.uploads.get(name)
            if data is None:
                self.answer(404)
            elif self.command == "PUT":
                digest = self.query["digest"]
                if digest_of(bytes(data)) != digest:
                    self.answer(400)
                    return
                if not state.swallow:
                    state.blobs[repository, digest] = bytes(data)
                self.answer(201)
            else:
                data += self.body if self.command == "PATCH" else b""
                self.answer(202 if self.command == "PATCH" else 204, Location=self.path,
                            Range=f"0-{max(len(data) - 1, 0)}")

        def blob(self, repository: str, digest: str) -> None:
            data = state.blobs.get((repository, digest))
            if data is None:
                self.answer(404)
            else:
                size = len(data) + state.wrong_size
                said = digest_of(b"other") if state.wrong_digest else digest
                self.answer(200, data, Content_Length=str(size), Docker_Content_Digest=said)

        def manifest(self, repository: str, tag: str) -> None:
            if self.command == "PUT":
                layers = json.loads(self.body)["layers"]
                if any((repository, layer["digest"]) not in state.blobs for layer in layers):
                    self.answer(400)
                    return
                state.manifests[repository, tag] = state.other_manifest or self.body
                self.answer(201)
            elif (repository, tag) in state.manifests:
                self.answer(200, state.manifests[repository, tag])
            else:
                self.answer(404)

    return Handler
