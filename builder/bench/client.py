"""What a benchmark asks of a server before it measures: its model, its context, its version.

The server was perhaps not started by Sparkyard, so its answers are limited in bytes and in time,
and shown without control characters.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import requests

from builder.errors import EngineError, UsageError
from builder.limits import MB, TooMuchError, bounded, within
from builder.smoke.client import Client
from builder.text import one_line, redact

ANSWER_BYTES = MB  # the list of models of a large gateway has 0.1 MB
ANSWER_S = 30.0  # one answer, from the connection to the last byte
CHUNK_BYTES = 1 << 16
SHOWN = 200  # characters of foreign text in a message
LISTENING = "check that a vLLM server listens there"


class BadAnswerError(Exception):
    """The server did not answer as its API says; the text says what it did instead."""

    def __init__(self, what: str, next_step: str) -> None:
        """Keep what happened, and what to do about it."""
        super().__init__(what)
        self.next_step = next_step


class BenchClient(Client):
    """A client of any address, for servers that Sparkyard did not start."""

    def __init__(self, url: str, model: str, patience: float = 1.0) -> None:
        """Bind to ``http://host:port``, with or without ``/v1``; raises UsageError for others."""
        super().__init__(0, model, patience=patience)
        if not _is_address(url):
            raise UsageError("this is not the address of a server",
                             where=f"--url {one_line(redact(url), SHOWN)}",
                             next_step="write it as http://127.0.0.1:8000")
        self.base = url.rstrip("/").removesuffix("/v1")
        self.shown = one_line(redact(self.base), SHOWN)

    def context(self) -> int:
        """Return the context length of the model; raises EngineError, UsageError."""
        try:
            served = _contexts(self._json("/v1/models"))
        except BadAnswerError as error:
            raise EngineError(f"the server does not say which models it serves: {error}",
                              where=f"{self.shown}/v1/models", next_step=error.next_step) from error
        if self.model not in served:
            names = one_line(", ".join(served), SHOWN) or "none"
            raise UsageError(f"the server does not serve {self.model}; its models: {names}",
                             where=self.shown,
                             next_step="name a recipe whose model it serves: --recipe")
        length = served[self.model]
        if length is None:
            raise EngineError(f"the server does not say the context length of {self.model}",
                              where=f"{self.shown}/v1/models: max_model_len",
                              next_step="measure a vLLM server")
        return length

    def version(self) -> str:
        """Return vLLM's version; empty where the server does not say."""
        try:
            answer = self._json("/version")
        except BadAnswerError:
            return ""
        version = answer.get("version") if isinstance(answer, dict) else None
        return one_line(version, SHOWN) if isinstance(version, str) else ""

    def _json(self, path: str) -> Any:
        """Return the JSON that a path answers with; raises BadAnswerError for all else."""
        try:
            data = within(ANSWER_S * self.patience, lambda: self._body(path))
        except TooMuchError as error:
            raise BadAnswerError(f"its answer is {error}", LISTENING) from error
        except (requests.RequestException, OSError, ValueError) as error:
            raise BadAnswerError(_reason(error), LISTENING) from error
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BadAnswerError("its answer is not JSON", LISTENING) from error

    def _body(self, path: str) -> bytes:
        with self._session.get(self.base + path, stream=True, allow_redirects=False,
                               timeout=(10, ANSWER_S * self.patience)) as response:
            if response.status_code != 200:
                raise _refused(response.status_code)
            chunks = response.iter_content(CHUNK_BYTES)
            return b"".join(bounded(chunks, ANSWER_BYTES, ANSWER_S * self.patience))


def _is_address(url: str) -> bool:
    """Say whether it is the address of a web server: scheme, host, and a port that exists."""
    try:
        parts = urlsplit(url)
        return (parts.scheme in ("http", "https") and bool(parts.hostname)
                and (parts.port is None or parts.port > 0) and url.isprintable()
                and not (parts.query or parts.fragment or " " in url))
    except ValueError:
        return False


def _contexts(answer: Any) -> dict[str, int | None]:
    """Return the context length of each model; raises BadAnswerError for another document."""
    models = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(models, list):
        raise BadAnswerError("its answer is not a list of models", LISTENING)
    named = [model for model in models if isinstance(model, dict)
             and isinstance(model.get("id"), str)]
    return {model["id"]: _positive(model.get("max_model_len")) for model in named}


def _positive(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _refused(status: int) -> BadAnswerError:
    """Return the error for an HTTP status other than 200."""
    if status in (401, 403):
        return BadAnswerError(f"HTTP {status}: it wants a key or a password",
                              "start it without --api-key; a user and password for a proxy go "
                              "before the host in --url")
    if status == 404:
        return BadAnswerError("HTTP 404: there is no OpenAI API at this address",
                              "name the address before /v1")
    if status >= 500:
        return BadAnswerError(f"HTTP {status}: the server itself has failed",
                              "read the log of that server")
    return BadAnswerError(f"HTTP {status}", LISTENING)


def _reason(error: Exception) -> str:
    """Say why a connection failed, without the address, which may hold a password."""
    if isinstance(error, requests.Timeout):
        return "it did not answer in time"
    if isinstance(error, requests.ConnectionError):
        return "nothing accepts a connection there, or it was closed"
    return f"the connection failed ({type(error).__name__})"
