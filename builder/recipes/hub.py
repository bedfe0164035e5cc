"""Whether the hub's cache of this host has all that a recipe loads, so that it need not be written.

Reads the folder only: the layout of ``huggingface_hub`` (``models--owner--name/snapshots/…``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from builder.errors import SparkyardError
from builder.limits import read_file
from builder.recipes.models import Recipe

INDEX = "model.safetensors.index.json"
INDEX_LIMIT = 64 * 2**20
REF_BYTES = 4096  # a commit, 40 digits
# Flags that make the server load something else than the checkpoint from the hub.
LOADS_MORE = ("--tokenizer", "--hf-config-path", "--lora-modules", "--trust-remote-code")


def hub_folder() -> Path:
    """Return the user's folder of the hub: ``HF_HOME``, else where the hub's own client puts it."""
    named = os.environ.get("HF_HOME") or Path.home() / ".cache/huggingface"
    return Path(named).expanduser().absolute()


def is_complete(recipe: Recipe) -> bool:
    """Say whether every file that the server loads is on this host, at a pinned revision.

    A model in a folder is complete. In doubt (a second model at a revision that nobody pinned, a
    loader that is not understood) it is not, and the cache stays writable.
    """
    if recipe.model.repository is None:
        return True
    if not recipe.model.pinned or any(_loads_more(word) for word in recipe.serve):
        return False
    snapshot = snapshot_folder(recipe)
    if snapshot is None:
        return False
    files = ["config.json", *_weights(snapshot)]
    return len(files) > 1 and all((snapshot / name).is_file() for name in files)


def snapshot_folder(recipe: Recipe) -> Path | None:
    """Return the folder that the hub's cache has of a recipe's revision; None where it has none.

    A branch is looked up where the hub's client notes its commit.
    """
    if recipe.model.repository is None:
        return None
    owner = "--".join(("models", *recipe.model.repository.split("/")))
    folder, revision = hub_folder() / "hub" / owner, recipe.model.revision
    try:
        if not recipe.model.pinned:
            noted = read_file(folder / "refs" / revision, REF_BYTES, "reference")
            revision = noted.decode("ascii").strip()
        found = folder / "snapshots" / revision
        return found if found.is_dir() else None
    except (OSError, SparkyardError, UnicodeDecodeError, ValueError):
        return None


def _loads_more(word: str) -> bool:
    return word.split("=")[0] in LOADS_MORE or '"model"' in word


def _weights(snapshot: Path) -> Iterator[str]:
    if (snapshot / "model.safetensors").is_file():
        yield "model.safetensors"
        return
    try:
        index: Any = json.loads(read_file(snapshot / INDEX, INDEX_LIMIT, "index of the weights"))
        yield from sorted({str(name) for name in index["weight_map"].values()})
    except (OSError, SparkyardError, ValueError, LookupError, TypeError, AttributeError,
            RecursionError):
        return
