"""The OpenAI API of a server on this machine's loopback interface; no other host is ever asked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import requests

TIMEOUT_S = 300.0
# A busy vLLM merges the tokens that wait into one chunk: a short answer may rightly be one piece.
MERGED = 64
BULK = re.compile(r"_(bucket|created)(\{|$)")  # of no use in a record, and hundreds of lines


class Unanswered(Exception):  # noqa: N818 - a finding about the server
    """The server did not answer as the API says; the text is what it did instead."""


class Client:
    """Asks one model of one server."""

    def __init__(self, port: int, model: str) -> None:
        """Bind to a port of 127.0.0.1; proxies of the environment are not for it."""
        self.port, self.base, self.model = port, f"http://127.0.0.1:{port}", model
        self._session = requests.Session()
        self._session.trust_env = False

    def healthy(self) -> bool:
        """Say whether ``/health`` answers 200."""
        return self.health() == 200

    def health(self) -> int:
        """Return the status that ``/health`` answers; 0 where nobody answers."""
        try:
            return self._session.get(f"{self.base}/health", timeout=10).status_code
        except requests.RequestException:
            return 0

    def request(self, question: str, **options: Any) -> dict[str, Any]:
        """Return the body of a chat request with greedy decoding."""
        return {"model": self.model, "temperature": 0, "max_tokens": 64,
                "messages": [{"role": "user", "content": question}], **options}

    def chat(self, body: dict[str, Any], timeout: float = TIMEOUT_S) -> dict[str, Any]:
        """Ask and return the whole answer; raises Unanswered."""
        answer: dict[str, Any] = self._post(body, timeout=timeout).json()
        return answer

    def events(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Ask for a stream and yield its chunks; raises Unanswered, also for one cut off."""
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        with self._post(asked, stream=True) as response:
            for raw in lines(response):
                line = raw.decode("utf-8")
                if line == "data: [DONE]":
                    return
                if line.startswith("data: "):
                    yield json.loads(line[6:])
        raise Unanswered("the stream ended without [DONE]")

    def assembled(self, body: dict[str, Any]) -> dict[str, Any]:
        """Ask for a stream and put its pieces together as the whole answer would be."""
        return assemble(self.events(body))

    def abandon(self, body: dict[str, Any]) -> None:
        """Ask for a stream and leave it after its first piece."""
        pieces = self.events(body)
        next(pieces, None)
        pieces.close()  # type: ignore[attr-defined]

    def status(self, body: dict[str, Any]) -> int:
        """Return the HTTP status that a request gets, good or bad."""
        return self._send("POST", "/v1/chat/completions", json=body).status_code

    def metric(self, name: str) -> float:
        """Return a metric of the server, summed over its labels; raises Unanswered."""
        text = self._send("GET", "/metrics").text
        found = [line.rsplit(" ", 1)[1] for line in text.splitlines()
                 if line.split("{")[0].split(" ")[0] == name]
        if not found:
            raise Unanswered(f"/metrics lacks {name}")
        return sum(float(value) for value in found)

    def metrics(self, prefix: str = "vllm:") -> dict[str, float]:
        """Return the server's counters by name and labels, without the buckets of histograms.

        A gauge of Prometheus may be NaN or endless, which is no number of JSON: it is left out.
        """
        text = self._send("GET", "/metrics").text
        rows = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(prefix))
        counted = {row[0]: float(row[1]) for row in rows
                   if len(row) == 2 and not BULK.search(row[0])}
        return {name: value for name, value in counted.items() if math.isfinite(value)}

    def context_length(self) -> int:
        """Return the tokens that a request and its answer may take; raises Unanswered."""
        models = self._send("GET", "/v1/models").json()["data"]
        found = next((one for one in models if one["id"] == self.model), None)
        if not found or not found.get("max_model_len"):
            raise Unanswered(f"/v1/models does not say the max_model_len of {self.model}")
        return int(found["max_model_len"])

    def _post(self, body: dict[str, Any], *, stream: bool = False,
              timeout: float = TIMEOUT_S) -> requests.Response:
        response = self._send("POST", "/v1/chat/completions", json=body, stream=stream,
                              timeout=timeout)
        if response.status_code != 200:
            raise Unanswered(f"status {response.status_code}: {response.text[:500]}")
        return response

    def _send(self, method: str, path: str, **options: Any) -> requests.Response:
        try:
            return self._session.request(method, self.base + path,
                                         **{"timeout": TIMEOUT_S, **options})
        except requests.RequestException as error:
            raise Unanswered(f"no answer: {error}") from error


def lines(response: requests.Response) -> Iterator[bytes]:
    """Yield the lines of a streamed body; a connection that breaks is Unanswered."""
    try:
        yield from response.iter_lines()
    except requests.RequestException as error:
        raise Unanswered(f"the stream broke: {error}") from error


def assemble(events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Put the chunks of a stream together; raises Unanswered where text came in one piece."""
    message: dict[str, Any] = {"content": "", "tool_calls": []}
    usage: dict[str, Any] = {}
    finish, pieces = None, 0
    for event in events:
        usage = event.get("usage") or usage
        for choice in event.get("choices", []):
            delta = choice.get("delta", {})
            finish = choice.get("finish_reason") or finish
            pieces += bool(delta.get("content"))
            for name in ("content", "reasoning", "reasoning_content"):
                message[name] = message.get(name, "") + (delta.get(name) or "")
            _add_calls(message["tool_calls"], delta.get("tool_calls") or [])
    if pieces == 1 and usage.get("completion_tokens", 0) > MERGED:
        raise Unanswered("the stream came in one piece")
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}


def _add_calls(calls: list[dict[str, Any]], pieces: list[dict[str, Any]]) -> None:
    for piece in pieces:
        while len(calls) <= piece["index"]:
            calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        call, function = calls[piece["index"]], piece.get("function") or {}
        call["id"] = piece.get("id") or call["id"]
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""
