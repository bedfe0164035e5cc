"""Patches in a registry: found by digest, tagged to stay, and no answer is taken on trust."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from patched_cells import patched_cell

from builder import labels as label
from builder.cli import run
from builder.engine.client import ImageFacts
from builder.errors import NetworkError
from builder.locking.lock import load_for
from builder.patches import artifact
from builder.patches.diffs import digest_of, place
from builder.patches.load import push_patches

DIFF = b"diff --git a/x b/x\n"
SHA256 = digest_of(DIFF)
Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Registry:
    """A registry in memory; ``odd`` answers in its place."""

    name: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, bytes] = field(default_factory=dict)
    odd: Callable[[str], Answer] | None = None

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """Return status, headers and body."""
        if self.odd is not None:
            return self.odd(path)
        last = path.partition("?")[0].rpartition("/")[2]
        if method == "POST":
            return 202, {"Location": f"http://{self.name.partition('/')[0]}{path}session"}, b""
        if method == "PUT" and "/manifests/" in path:
            self.tags[last] = body
            return 201, {"Location": path}, b""
        if method == "PUT":
            self.blobs["sha256:" + hashlib.sha256(body).hexdigest()] = body
            return 201, {"Location": path}, b""
        found = (self.tags if "/manifests/" in path else self.blobs).get(last)
        return (404, {}, b"") if found is None else (200, {}, found)


@contextmanager
def serve(registry: Registry) -> Iterator[Registry]:
    """Serve the registry on a free port until the block ends."""
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, said = registry.answer(self.command, self.path, body)
            self.send_response(status)
            for key, value in {"Content-Length": str(len(said)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(said if self.command != "HEAD" else b"")

        do_GET = do_HEAD = do_POST = do_PUT = answer  # noqa: N815 - the base's names

        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.name = f"127.0.0.1:{server.server_address[1]}/sparkyard"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serve(Registry()) as found:
        yield found


def test_there_and_back_under_a_tag(registry: Registry) -> None:
    assert artifact.pull(registry.name, SHA256) is None
    name = artifact.push(registry.name, SHA256, DIFF)
    assert name == f"{registry.name}/patches:sha256-{SHA256}"
    assert artifact.pull(registry.name, SHA256) == DIFF
    manifest = json.loads(registry.tags[f"sha256-{SHA256}"])
    assert [layer["digest"] for layer in manifest["layers"]] == [f"sha256:{SHA256}"]


def test_what_is_there_is_not_pushed_again(registry: Registry) -> None:
    artifact.push(registry.name, SHA256, DIFF)
    registry.blobs["sha256:" + SHA256] = DIFF
    before = dict(registry.tags)
    registry.tags[f"sha256-{SHA256}"] += b" "
    artifact.push(registry.name, SHA256, DIFF)
    assert registry.tags[f"sha256-{SHA256}"] == before[f"sha256-{SHA256}"] + b" "


@pytest.mark.parametrize("tag", [None, b"[]", b'{"layers": [{"digest": "sha256:0"}]}', b"<html>"])
def test_a_push_that_was_killed_before_its_tag_is_made_up_for(registry: Registry,
                                                              tag: bytes | None) -> None:
    """Bytes that no tag holds are garbage to a registry."""
    registry.blobs["sha256:" + SHA256] = DIFF
    if tag is not None:
        registry.tags[f"sha256-{SHA256}"] = tag
    artifact.push(registry.name, SHA256, DIFF)
    assert json.loads(registry.tags[f"sha256-{SHA256}"])["layers"][0]["digest"].endswith(SHA256)


@pytest.mark.parametrize("answer", [
    (200, {}, b"<html>log in</html>"), (200, {}, DIFF + b"x"), (401, {}, b""),
    (401, {"WWW-Authenticate": "Bearer"}, b""), (401, {"WWW-Authenticate": 'Basic realm="x"'}, b""),
    (403, {}, b"secret"), (500, {}, b""), (400, {}, b'{"errors": [{"message": "secret"}]}'),
    (400, {}, b"[1]"), (200, {"Content-Encoding": "gzip"}, b"no gzip"),
])
def test_no_answer_is_taken_on_trust(registry: Registry, answer: Answer) -> None:
    registry.odd = lambda _: answer
    assert artifact.pull(registry.name, SHA256) is None
    with pytest.raises(NetworkError) as caught:
        artifact.push(registry.name, SHA256, DIFF)
    assert "secret" not in str(caught.value)


def test_an_image_brings_its_own_patches_whatever_its_lock_is_now(
        registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    with patched_cell(tmp_path, monkeypatch) as at:
        monkeypatch.setenv("SPARKYARD_REGISTRY", registry.name)
        at.declare()
        run(["--matrix", str(at.matrix), "patch", "refresh"])
        old = load_for(at.cell, at.workspace.locks).patches[0].sha256
        image = labelled(old)
        at.hosting.commit({"vllm/__init__.py": 'WORD = "pushed"\n'}, on="fix")
        at.hosting.open_pull(7, "fix")
        run(["--matrix", str(at.matrix), "patch", "refresh"])
        assert load_for(at.cell, at.workspace.locks).patches[0].sha256 != old
        assert push_patches(at.workspace, at.cell, image) == (
            artifact.reference(registry.name, old),)
        assert artifact.pull(registry.name, old)
        assert push_patches(at.workspace, at.cell, labelled("")) == ()
        place(at.workspace.cache, old).unlink()
        registry.blobs.clear()
        capsys.readouterr()
        assert push_patches(at.workspace, at.cell, image) == ()
        assert f"sha256:{old} is not available" in capsys.readouterr().err


def labelled(digests: str) -> ImageFacts:
    """Return an image with these patches."""
    return ImageFacts("sha256:1", (), {label.PATCHES: digests}, (), (), 1, "linux/amd64", "", {})
