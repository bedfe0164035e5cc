"""The OpenAI API of a server on this machine's loopback interface; no other host is ever asked."""

from __future__ import annotations

import json
from typing import Any

import requests

TIMEOUT_S = 300.0


class Unanswered(Exception):  # noqa: N818 - a finding about the server
    """The server did not answer as the API says; the text is what it did instead."""


class Client:
    """Asks one model of one server."""

    def __init__(self, port: int, model: str) -> None:
        """Bind to a port of 127.0.0.1; proxies of the environment are not for it."""
        self.base, self.model = f"http://127.0.0.1:{port}", model
        self._session = requests.Session()
        self._session.trust_env = False

    def healthy(self) -> bool:
        """Say whether ``/health`` answers 200."""
        try:
            return self._session.get(f"{self.base}/health", timeout=10).status_code == 200
        except requests.RequestException:
            return False

    def request(self, question: str, **options: Any) -> dict[str, Any]:
        """Return the body of a chat request with greedy decoding."""
        return {"model": self.model, "temperature": 0, "max_tokens": 64,
                "messages": [{"role": "user", "content": question}], **options}

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Ask and return the whole answer; raises Unanswered."""
        answer: dict[str, Any] = self._post(body).json()
        return answer

    def stream(self, body: dict[str, Any]) -> tuple[str, int]:
        """Ask for a stream; return its text and the number of chunks that carried some."""
        text, chunks, ended = "", 0, False
        response = self._post({**body, "stream": True}, stream=True)
        for raw in response.iter_lines():
            line = raw.decode("utf-8")
            if line == "data: [DONE]":
                ended = True
            elif line.startswith("data: "):
                for choice in json.loads(line[6:]).get("choices", []):
                    piece = choice.get("delta", {}).get("content") or ""
                    text, chunks = text + piece, chunks + bool(piece)
        if not ended:
            raise Unanswered("the stream ended without [DONE]")
        return text, chunks

    def _post(self, body: dict[str, Any], *, stream: bool = False) -> requests.Response:
        try:
            response = self._session.post(f"{self.base}/v1/chat/completions", json=body,
                                          timeout=TIMEOUT_S, stream=stream)
        except requests.RequestException as error:
            raise Unanswered(f"no answer: {error}") from error
        if response.status_code != 200:
            raise Unanswered(f"status {response.status_code}: {response.text[:500]}")
        return response
