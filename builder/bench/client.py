"""What a benchmark asks of a server before it measures: its model, its context, its version."""

from __future__ import annotations

from typing import Any

from builder.errors import EngineError, UsageError
from builder.smoke.client import Client, Unanswered


class BenchClient(Client):
    """A client of any address, for servers that Sparkyard did not start."""

    def __init__(self, url: str, model: str) -> None:
        """Bind to ``http://host:port``, with or without ``/v1``; raises UsageError for others."""
        if not url.startswith(("http://", "https://")):
            raise UsageError("this is no address of a server", where=f"--url {url}",
                             next_step="name it as http://127.0.0.1:8000")
        super().__init__(0, model)
        self.base = url.rstrip("/").removesuffix("/v1")

    def context(self) -> int:
        """Return the context length of the model; raises EngineError, UsageError."""
        try:
            served = {model["id"]: model for model in self._json("/v1/models")["data"]}
        except (Unanswered, KeyError, TypeError, ValueError) as error:
            raise EngineError(f"the server does not say what it serves: {error}", where=self.base,
                              next_step="is a vLLM server listening there?") from error
        if self.model not in served:
            raise UsageError(f"the server has no model {self.model}, but {', '.join(served)}",
                             where=self.base, next_step="name the recipe it serves: --recipe")
        return int(served[self.model]["max_model_len"])

    def version(self) -> str:
        """Return vLLM's version; empty where the server does not say."""
        try:
            return str(self._json("/version")["version"])
        except (Unanswered, KeyError, TypeError, ValueError):
            return ""

    def _json(self, path: str) -> Any:
        return self._send("GET", path).json()
