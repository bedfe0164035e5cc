"""Probes against a server on loopback that answers as it is told: each fires, each stays quiet."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from builder.smoke.client import Client
from builder.smoke.probes import ask
from builder.smoke.verdict import Status

GOOD = "The capital of France is Paris."


class Model:
    """What the fake server says; a test changes it."""

    whole = (GOOD,)
    streamed = GOOD
    pieces = 5
    finish = "stop"
    tokens = 8
    status = 200
    done = True
    asked = 0


class Handler(BaseHTTPRequestHandler):
    """The chat route of the OpenAI API, as little as the probes need."""

    model: Model

    def log_message(self, *_: Any) -> None:
        """Stay silent."""

    def do_POST(self) -> None:
        """Answer one chat request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model = self.model
        self.send_response(model.status)
        self.end_headers()
        if model.status != 200:
            return
        if not body.get("stream"):
            text = model.whole[model.asked % len(model.whole)]
            model.asked += 1
            self.wfile.write(json.dumps({"usage": {"completion_tokens": model.tokens}, "choices": [
                {"finish_reason": model.finish, "message": {"content": text}}]}).encode())
            return
        step = max(1, len(model.streamed) // model.pieces)
        for start in range(0, len(model.streamed), step):
            piece = {"choices": [{"delta": {"content": model.streamed[start:start + step]}}]}
            self.wfile.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
        if model.done:
            self.wfile.write(b"data: [DONE]\n\n")


@pytest.fixture
def served() -> Iterator[tuple[Client, Model]]:
    model = Model()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (Handler,), {"model": model}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Client(server.server_port, "tiny"), model
    server.shutdown()
    server.server_close()
    thread.join()


def failed(client: Client) -> list[str]:
    return [check.check for check in ask(client) if check.status is Status.FAIL]


def test_a_healthy_server_passes_all(served: tuple[Client, Model]) -> None:
    client, _ = served
    assert failed(client) == []
    assert {check.answer for check in ask(client)} == {GOOD}


@pytest.mark.parametrize(("change", "expected"), [
    ({"whole": ("!!!!!!!!",), "streamed": "!!!!!!!!"},
     ["plain chat", "streaming", "same answer twice"]),
    ({"finish": "length"}, ["plain chat"]),
    ({"tokens": 0}, ["plain chat"]),
    ({"streamed": GOOD + GOOD}, ["streaming"]),
    ({"pieces": 1}, ["streaming"]),
    ({"done": False}, ["streaming"]),
    ({"whole": (GOOD, GOOD, GOOD, GOOD + " Yes.")}, ["same answer twice"]),
    ({"status": 500}, ["plain chat", "streaming", "same answer twice"]),
])
def test_each_fault_is_caught_by_name(served: tuple[Client, Model], change: dict[str, Any],
                                      expected: list[str]) -> None:
    client, model = served
    for name, value in change.items():
        setattr(model, name, value)
    assert failed(client) == expected


def test_nobody_there_is_a_failure_not_a_traceback() -> None:
    assert len(failed(Client(1, "tiny"))) == 3
