"""What a model hub says of a repository: its commit, its files and two of their contents.

The hub is Hugging Face's, or the one that ``HF_ENDPOINT`` names. Only small files are read.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from builder.errors import NetworkError
from builder.indexes.http import Client, Pace, SourceError, body, with_retries
from builder.indexes.settings import Sources
from builder.limits import HUB_FILE_BYTES
from builder.text import one_line

ENDPOINT = "https://huggingface.co"
OK = 200
SHOWN = 200  # characters of a foreign text in a message


@dataclass(frozen=True)
class HubModel:
    """A repository at one commit; ``files`` maps the weights' files to their bytes."""

    repository: str
    revision: str
    modified: str
    parameters: int | None
    files: Mapping[str, int]
    config: Mapping[str, Any]
    tensor_bytes: int | None
    hub: str = ENDPOINT


def endpoint() -> str:
    """Return the address of the hub."""
    return (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")


def _named() -> str:
    """Return the hub's address as files may hold it: without a user name and password."""
    return re.sub(r"//[^/@]*@", "//", endpoint())


def ask_hub(repository: str, revision: str, user: Sources) -> HubModel:
    """Ask the hub for a repository; raises NetworkError where it does not answer as a hub does."""
    client = Client(user)
    try:
        about = _json(client, f"api/models/{repository}/revision/{revision}?blobs=true") or {}
        commit = str(about["sha"])
        config = _json(client, f"{repository}/resolve/{commit}/config.json")
        index = _json(client, f"{repository}/resolve/{commit}/model.safetensors.index.json")
        files = {str(entry["rfilename"]): int(entry["size"]) for entry in about["siblings"]
                 if str(entry["rfilename"]).endswith(".safetensors")}
        total = (about.get("safetensors") or {}).get("total")
        size = ((index or {}).get("metadata") or {}).get("total_size")
        return HubModel(repository, commit, str(about.get("lastModified", ""))[:10],
                        int(total) if total else None, files, config or {},
                        int(size) if size else None, _named())
    except SourceError as error:
        raise _failed(repository, error.reason) from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError,
            RecursionError) as error:
        said = one_line(repr(error), SHOWN)
        raise _failed(repository, f"answered with something else than a hub does: {said}"
                      ) from error


def _json(client: Client, path: str) -> Any:
    """Return a JSON answer, None where the hub has no such page."""
    def ask() -> Any:
        reply = client.get(f"{endpoint()}/{path}", accept="application/json")
        if reply.status_code != OK:
            reply.close()
            return None
        return json.loads(body(reply, HUB_FILE_BYTES))

    return with_retries(ask, Pace(attempts=2), threading.Event())


def _failed(repository: str, reason: str) -> NetworkError:
    return NetworkError(f"the hub says nothing of {repository}: {reason}", where=repository,
                        next_step="run it where the hub answers (HF_ENDPOINT names another one)")
