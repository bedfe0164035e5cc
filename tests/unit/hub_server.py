"""A model hub on this machine: the few pages that are asked of one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "c" * 40
CONFIG: dict[str, Any] = {"text_config": {
    "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 32, "max_position_embeddings": 64,
    "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"] * 3}}
ABOUT = {"sha": COMMIT, "lastModified": "2026-11-20T10:00:00.000Z",
         "safetensors": {"total": 1_500_000}, "siblings": [
             {"rfilename": "model-1.safetensors", "size": 2_000_100},
             {"rfilename": "model-2.safetensors", "size": 1_000_100},
             {"rfilename": "README.md", "size": 5}]}


def pages(repository: str = "a/b") -> dict[str, Any]:
    """Return the pages of a repository, to be changed at will."""
    files = f"/{repository}/resolve/{COMMIT}"
    return {f"/api/models/{repository}/revision/main?blobs=true": ABOUT,
            f"{files}/config.json": CONFIG,
            f"{files}/model.safetensors.index.json": {"metadata": {"total_size": 3_000_000}}}


@contextmanager
def serve_hub(found: dict[str, Any]) -> Iterator[str]:
    """Serve the pages on a free port of this machine; yield its address."""
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = json.dumps(found[self.path]).encode() if self.path in found else b"none"
            self.send_response(200 if self.path in found else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
