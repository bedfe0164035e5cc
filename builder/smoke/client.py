"""The OpenAI API of a server on this machine; no other host is ever asked."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from typing import Any

import requests
import urllib3

from builder.limits import (
    ANSWER_BYTES,
    LINE_BYTES,
    MB,
    STREAM_S,
    TooMuchError,
    bounded,
    within,
)
from builder.text import redact

LOOPBACK = "127.0.0.1"
TIMEOUT_S = 300.0
HEALTH_S = 10.0
PIECE = 65_536  # bytes that one read may return; it returns what is there
# A busy vLLM merges the tokens that wait into one chunk: a short answer may rightly be one piece.
MERGED = 64
MOST_CALLS = 128  # tool calls of one answer, the limit of the API; the battery asks for three
BULK = re.compile(r"_(bucket|created)(\{|$)")  # of no use in a record, and hundreds of lines


class Unanswered(Exception):  # noqa: N818 - a finding about the server
    """The server did not answer as the API says; the text is what it did instead."""

    def __init__(self, what: str, *, timed_out: bool = False) -> None:
        """Keep what happened, and whether it was that no whole answer came in time."""
        super().__init__(what)
        self.timed_out = timed_out


class Client:
    """Asks one model of one server.

    ``patience`` multiplies every limit in seconds, also one that is given to a question.
    """

    def __init__(self, port: int, model: str, *, host: str = LOOPBACK, key: str = "",
                 patience: float = 1.0) -> None:
        """Bind to a port of this machine; proxies of the environment are not for it."""
        self.port, self.model, self.host, self._key = port, model, host, key
        self.patience = patience
        self.base = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._session = requests.Session()
        self._session.trust_env = False
        if key:
            self._session.headers["Authorization"] = f"Bearer {key}"

    def another(self) -> Client:
        """Return a client of the same server with a connection of its own, for another thread."""
        return Client(self.port, self.model, host=self.host, key=self._key,
                      patience=self.patience)

    def healthy(self) -> bool:
        """Say whether ``/health`` answers 200."""
        return self.health() == 200

    def unhealthy(self) -> str:
        """Return what is wrong where ``/health`` does not answer 200; nothing otherwise."""
        return "" if self.healthy() else "/health no longer answers 200"

    def health(self) -> int:
        """Return the status that ``/health`` answers; 0 where nobody answers."""
        try:
            return self._send("GET", "/health", timeout=HEALTH_S).status_code
        except Unanswered:
            return 0

    def request(self, question: str, **options: Any) -> dict[str, Any]:
        """Return the body of a chat request with greedy decoding."""
        return {"model": self.model, "temperature": 0, "max_tokens": 64,
                "messages": [{"role": "user", "content": question}], **options}

    def chat(self, body: dict[str, Any], timeout: float = TIMEOUT_S) -> dict[str, Any]:
        """Ask and return the whole answer; raises Unanswered."""
        return _object(_text(self._post(body, timeout=timeout)))

    def events(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Ask for a stream and yield its chunks; raises Unanswered, also for one cut off."""
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        with self._post(asked, stream=True) as response:
            for raw in lines(response, STREAM_S * self.patience):
                line = raw.decode("utf-8", "replace")
                if line == "data: [DONE]":
                    return
                if line.startswith("data: "):
                    yield _object(line[6:])
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
        text = _text(self._send("GET", "/metrics"))
        values = [line.rsplit(" ", 1)[1] for line in text.splitlines()
                  if line.split("{")[0].split(" ")[0] == name]
        if not values:
            raise Unanswered(f"/metrics lacks {name}")
        return sum(map(float, values))

    def metrics(self, prefix: str = "vllm:", timeout: float = TIMEOUT_S) -> dict[str, float]:
        """Return the server's counters by name and labels, without the buckets of histograms.

        A gauge of Prometheus may be NaN or endless, which is no number of JSON: it is left out.
        """
        text = _text(self._send("GET", "/metrics", timeout=timeout))
        rows = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(prefix))
        counted = {row[0]: _number(row[1]) for row in rows
                   if len(row) == 2 and not BULK.search(row[0])}
        return {name: value for name, value in counted.items() if math.isfinite(value)}

    def context_length(self) -> int:
        """Return the tokens that a request and its answer may take; raises Unanswered."""
        models = _object(_text(self._send("GET", "/v1/models"))).get("data")
        known = next((model for model in models or () if model["id"] == self.model), None)
        if not known or not known.get("max_model_len"):
            raise Unanswered(f"/v1/models does not say the max_model_len of {self.model}")
        return int(known["max_model_len"])

    def _post(self, body: dict[str, Any], *, stream: bool = False,
              timeout: float = TIMEOUT_S) -> requests.Response:
        response = self._send("POST", "/v1/chat/completions", json=body, stream=stream,
                              timeout=timeout)
        if response.status_code != 200:
            raise Unanswered(f"status {response.status_code}: {_text(response)[:500]}")
        return response

    def _send(self, method: str, path: str, *, stream: bool = False, timeout: float = TIMEOUT_S,
              **options: Any) -> requests.Response:
        """Return a response whose body was read within ``timeout``, or is still to come."""
        timeout *= self.patience
        end = time.monotonic() + timeout
        try:
            response = within(timeout, lambda: self._session.request(
                method, self.base + path, stream=True, timeout=timeout, allow_redirects=False,
                **options), requests.Response.close)
            if not stream or response.status_code != 200:
                _read_whole(response, timeout)
            if response.status_code >= 400:
                # vLLM 0.19.1 then closes the connection without a word: the next question on it
                # would get no answer, and a sound server would be called dead.
                self._session.close()
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError,
                TooMuchError) as error:
            raise _unanswered("no whole answer", error, end) from error
        return response


def lines(response: requests.Response, seconds: float) -> Iterator[bytes]:
    """Yield the lines of a streamed body; one that breaks or does not end is Unanswered."""
    end = time.monotonic() + seconds
    try:
        yield from _lines(bounded(_pieces(response), ANSWER_BYTES, seconds))
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError,
            TooMuchError) as error:
        raise _unanswered("the stream broke", error, end) from error


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield whole lines; raises TooMuchError for one that does not end."""
    begun, length = [b""], 0
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        if whole:
            whole[0], begun, length = b"".join([*begun, whole[0]]), [], 0
        begun.append(rest)
        length += len(rest)
        yield from (line.rstrip(b"\r") for line in whole)
        if length > LINE_BYTES:
            raise TooMuchError(f"a line of more than {LINE_BYTES / MB:.0f} MB")
    if length:
        yield b"".join(begun)


def _read_whole(response: requests.Response, seconds: float) -> None:
    """Read the body within its limits, as requests itself does on first use without any."""
    try:
        response._content = b"".join(bounded(_pieces(response), ANSWER_BYTES, seconds))
        response._content_consumed = True  # type: ignore[attr-defined]
    except BaseException:
        response.close()  # the server may still be sending
        raise


def _pieces(response: requests.Response) -> Iterator[bytes]:
    """Yield a body as it comes: a read returns at once with what is there."""
    while piece := response.raw.read1(PIECE, decode_content=True):
        yield piece


def _text(response: requests.Response) -> str:
    """Return a body as text: JSON and metrics are UTF-8, whatever the header says or leaves out."""
    return response.content.decode("utf-8", "replace")


def _unanswered(what: str, error: Exception, end: float) -> Unanswered:
    """Turn the failure of a request into what is said of it; no password is in that."""
    timed_out = isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError) or (
        time.monotonic() > end)
    late = ", it timed out" if timed_out else ""
    return Unanswered(f"{what}{late}: {redact(str(error))}", timed_out=timed_out)


def _number(text: str) -> float:
    """Read a number; what is none is not finite."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _object(text: str) -> dict[str, Any]:
    """Read a JSON object; raises Unanswered for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unanswered(f"the answer is not JSON: {text[:200]!r}") from error
    if not isinstance(value, dict):
        raise Unanswered(f"the answer is not a JSON object: {text[:200]!r}")
    return value


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
        if not 0 <= piece["index"] < MOST_CALLS:
            raise Unanswered(f"a piece of tool call {piece['index']!r:.20} came")
        while len(calls) <= piece["index"]:
            calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        call, function = calls[piece["index"]], piece.get("function") or {}
        call["id"] = piece.get("id") or call["id"]
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""
