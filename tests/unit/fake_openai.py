"""A fake OpenAI server on loopback: it knows the tiny model's dialogues and breaks as it is told.

No model runs here; it shows that the battery is quiet on right answers and loud on each fault.
"""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

KNOWN = Path(__file__).parents[1] / "fixtures" / "train_tiny_gemma4" / "dialogues.json"
LENGTH = 2048  # tokens of context; a token is a word here
Message = dict[str, Any]
# What a sound model says of what the tiny one was never taught, by a part of the question.
GENERAL = {
    "how a tide comes about": "The moon pulls at the water, so that it rises and falls each day.",
    "List everything you see": "A house and a tree on grass; the sun in a blue sky.",
    "colour and the shape": "1. A red circle. 2. A blue square. 3. A green triangle.",
    "in one sentence": "It is plain white.",
    "handbook of sailing": " ".join(
        f"Section {number} is about rope {number * 7}, knot {number * 11} and sail {number * 13}."
        for number in range(1, 101)),
    "colour is the shape": "The shape is purple.",
    "colour is the background": "The background is black.",
    "Which shape": "It is a square.",
}
PNG = b"\x89PNG\r\n"
LOOP = ("search_web", {"query": "population of Paris", "max_results": 1}), (
    "calculate", {"expression": "2 * 2100000"})


class Fake:
    """What the server does: ``fault`` may change a message, ``status`` may refuse a request."""

    def __init__(self) -> None:
        """Begin healthy."""
        raw = json.loads(KNOWN.read_text(encoding="utf-8"))
        self.dialogues = raw["dialogues"]
        self.fault: Callable[[Message, dict[str, Any]], None] = lambda message, body: None
        self.status: Callable[[int], int] = lambda number: 200
        self.logprob: float | None = -0.1
        self.sees = False
        self.counts = False  # a token for each character of an answer, and not eight at most
        self.cut = self.leaks = self.lenient = self.frozen = self.endless = False
        self.finish = ""
        self.health = 200
        self.held = 0.0  # of the KV cache, when nothing runs
        self.asked = self.running = self.prompted = self.generated = self.succeeded = 0
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
        return general(body)


def words(body: dict[str, Any]) -> list[str]:
    """Return the words of a request: what counts as its tokens."""
    contents = [message.get("content") or "" for message in body["messages"]]
    return " ".join(text if isinstance(text, str) else text[-1]["text"]
                    for text in contents).split()


def pictures(body: dict[str, Any]) -> list[bytes]:
    """Return the images of a request; raises ValueError for one that is none."""
    parts = [part["image_url"]["url"] for message in body["messages"]
             if isinstance(message.get("content"), list) for part in message["content"][:-1]]
    found = [base64.b64decode(url.partition(",")[2]) for url in parts]
    if not all(one.startswith(PNG) for one in found):
        raise ValueError("not a picture")
    return found


def general(body: dict[str, Any]) -> Message:
    """Answer as a model would that knows more than the dialogues."""
    text, turns = " ".join(words(body)), [m for m in body["messages"] if m["role"] == "tool"]
    if "one tool after the other" in text:
        if len(turns) == len(LOOP):
            return {"content": "It is 4,200,000."}
        name, given = LOOP[len(turns)]
        return {"content": None, "tool_calls": [{"id": f"c{len(turns)}", "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)}}]}
    if "passwords" in text:
        return {"content": " and ".join(re.findall(r"gate is (\w+)\.", text))}
    if text.endswith("What is the capital of France?"):
        return {"content": "The capital of France is Paris."}
    return {"content": next(said for part, said in GENERAL.items() if part in text)}


class Server(ThreadingHTTPServer):
    """The listener: sixteen requests at once must not overflow its queue on a loaded machine.

    With the five places of socketserver's default, the kernel resets the connections beyond them.
    """

    daemon_threads = True
    request_queue_size = 128


class Handler(BaseHTTPRequestHandler):
    """The routes that the battery asks for."""

    fake: Fake

    def log_message(self, *_: Any) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        """Answer ``/health``, ``/metrics`` and ``/v1/models``."""
        fake = self.fake
        if self.path == "/health":
            self._send(fake.health, b"")
        elif self.path == "/v1/models":
            models = {"data": [{"id": "tiny", "max_model_len": LENGTH}]}
            self._send(200, json.dumps(models).encode())
        else:
            rows = {"num_requests_running": fake.running, "num_requests_waiting": 0,
                    "kv_cache_usage_perc": fake.held, "prompt_tokens_total": fake.prompted,
                    "generation_tokens_total": fake.generated,
                    "request_success_total": fake.succeeded}
            self._send(200, "".join(f'vllm:{name}{{engine="0"}} {value}\n'
                                    for name, value in rows.items()).encode())

    def do_POST(self) -> None:
        """Answer one chat request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fake = self.fake
        with fake.lock:
            fake.asked += 1
            status = fake.status(fake.asked)
        bad = (not body["messages"] or body["max_tokens"] < 1 or body["model"] != "tiny"
               or isinstance(body["temperature"], str)
               or (len(words(body)) + body["max_tokens"] > LENGTH and not fake.endless))
        try:
            bad = bad or bool(pictures(body)) > fake.sees
        except ValueError:
            bad = True
        if status != 200 or (bad and not fake.lenient):
            self._send(400 if bad else status, b"{}")
            return
        message = {"content": "?"} if bad else fake.reply(body)
        fake.fault(message, body)
        self._answer(message, body)

    def _answer(self, message: Message, body: dict[str, Any]) -> None:
        fake, finish = self.fake, self.fake.finish or (
            "tool_calls" if message.get("tool_calls") else "stop")
        tokens = max(1, len(message.get("content") or "")) if fake.counts else 8
        usage = {"completion_tokens": min(tokens, body["max_tokens"]),
                 "prompt_tokens": len(words(body))}
        with fake.lock:
            if not fake.frozen:
                fake.prompted += usage["prompt_tokens"]
                fake.generated += usage["completion_tokens"]
                fake.succeeded += 1
        if not body.get("stream"):
            logprobs = {"content": [{"logprob": fake.logprob, "top_logprobs": []}]}
            self._send(200, json.dumps({"usage": usage, "choices": [{
                "message": message, "finish_reason": finish, "logprobs": logprobs}]}).encode())
            return
        with fake.lock:
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
            with fake.lock:
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
    server = Server(("127.0.0.1", 0), type("H", (Handler,), {"fake": fake}))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port, fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
