"""A fake OpenAI server on loopback: it knows the tiny model's dialogues and breaks as it is told.

No model runs here; it shows that the battery is quiet on right answers and loud on each fault.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

KNOWN = Path(__file__).parents[1] / "fixtures" / "train_tiny_gemma4" / "dialogues.json"
Message = dict[str, Any]


class Fake:
    """What the server does: ``fault`` may change a message, ``status`` may refuse a request."""

    def __init__(self) -> None:
        """Begin healthy."""
        raw = json.loads(KNOWN.read_text(encoding="utf-8"))
        self.dialogues = raw["dialogues"]
        self.fault: Callable[[Message, dict[str, Any]], None] = lambda message, body: None
        self.status: Callable[[int], int] = lambda number: 200
        self.logprob: float | None = -0.1
        self.cut = self.leaks = self.lenient = False
        self.finish = ""
        self.asked = self.running = self.prompted = 0
        self.lock = Lock()

    def reply(self, body: dict[str, Any]) -> Message:
        """Return the message that the tiny model was trained to give."""
        thinking = body.get("chat_template_kwargs", {}).get("enable_thinking", False)
        names = [tool["function"]["name"] for tool in body.get("tools", [])]
        said = [(m["role"], m.get("content")) for m in body["messages"]]
        for known in self.dialogues:
            heard = known["messages"]
            if (known.get("thinking", False) == thinking and known.get("tools", []) == names
                    and [(m["role"], m.get("content")) for m in heard[:len(said)]] == said
                    and len(heard) > len(said)):
                return copy.deepcopy(heard[len(said)])
        raise KeyError(said)


class Handler(BaseHTTPRequestHandler):
    """The routes that the battery asks for."""

    fake: Fake

    def log_message(self, *_: Any) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        """Answer ``/health`` and ``/metrics``."""
        text = (f'vllm:num_requests_running{{engine="0"}} {self.fake.running}\n'
                f'vllm:prompt_tokens_total{{engine="0"}} {self.fake.prompted}\n')
        self._send(200, text.encode())

    def do_POST(self) -> None:
        """Answer one chat request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fake = self.fake
        with fake.lock:
            fake.asked += 1
            fake.prompted += 10
            status = fake.status(fake.asked)
        bad = (not body["messages"] or body["max_tokens"] < 1 or body["model"] != "tiny"
               or isinstance(body["temperature"], str))
        if status != 200 or (bad and not fake.lenient):
            self._send(400 if bad else status, b"{}")
            return
        message = {"content": "?"} if bad else fake.reply(body)
        fake.fault(message, body)
        self._answer(message, body)

    def _answer(self, message: Message, body: dict[str, Any]) -> None:
        fake, finish = self.fake, self.fake.finish or (
            "tool_calls" if message.get("tool_calls") else "stop")
        usage = {"completion_tokens": min(8, body["max_tokens"])}
        if not body.get("stream"):
            logprobs = {"content": [{"logprob": fake.logprob, "top_logprobs": []}]}
            self._send(200, json.dumps({"usage": usage, "choices": [{
                "message": message, "finish_reason": finish, "logprobs": logprobs}]}).encode())
            return
        fake.running += 1
        try:
            self.send_response(200)
            self.end_headers()
            for delta in pieces(message):
                self._event({"choices": [{"delta": delta}]})
            self._event({"choices": [{"delta": {}, "finish_reason": finish}]})
            self._event({"choices": [], "usage": usage})
            if not fake.cut:
                self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass
        finally:
            fake.running -= not fake.leaks

    def _event(self, event: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(data)


def pieces(message: Message) -> Iterator[Message]:
    """Cut a message into deltas of four signs."""
    for name in ("reasoning", "content"):
        text = message.get(name) or ""
        yield from ({name: text[at:at + 4]} for at in range(0, len(text), 4))
    for index, call in enumerate(message.get("tool_calls") or []):
        function = call["function"]
        yield {"tool_calls": [{"index": index, "id": call["id"],
                               "function": {"name": function["name"]}}]}
        for at in range(0, len(function["arguments"]), 4):
            part = {"arguments": function["arguments"][at:at + 4]}
            yield {"tool_calls": [{"index": index, "function": part}]}


@contextmanager
def serving() -> Iterator[tuple[int, Fake]]:
    """Serve on a free port of the loopback interface."""
    fake = Fake()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (Handler,), {"fake": fake}))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port, fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
