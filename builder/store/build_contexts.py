"""The name under which the store's layers go to the engine, so that the least has to be sent.

BuildKit keeps one copy of a local context for every client and base name of its path
(``SharedKey`` in https://github.com/docker/buildx/blob/master/build/opt.go). After a build that
copy holds that build's files and no others, so two images that take turns in one context send all
their layers every time. The store's folder therefore has a few names, and a build goes by the one
whose last build had most of its layers. What is written down here, engine by engine, is a guess
about the engine's disk: where it is wrong, more is sent, nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.files import write_text
from builder.store.content_store import Store, StoredLayer

NAMES = ("sparkyard-layers-a", "sparkyard-layers-b", "sparkyard-layers-c")
SHARED_ENOUGH = 0.5  # below it, a fresh copy costs less than the one it would displace


@dataclass(frozen=True)
class Context:
    """A folder to build from; ``held_bytes`` of the build the engine may have already."""

    path: Path
    held_bytes: int
    ledger: Path


def choose(store: Store, layers: Sequence[StoredLayer], engine: str) -> Context:
    """Return the context whose last build shares most bytes with ``layers``, or the oldest one.

    ``engine`` is the engine's own id.
    """
    ledger = _ledger(store, engine)
    past = _read(ledger)
    shared = {name: sum(layer.size for layer in layers if layer.digest in past.get(name, ()))
              for name in NAMES}
    best = max(NAMES, key=lambda name: shared[name])
    if shared[best] < SHARED_ENOUGH * sum(layer.size for layer in layers):
        # The ledger is in the order of use, names that were never used come first.
        best = next((name for name in NAMES if name not in past), next(iter(past), NAMES[0]))
    return Context(_link(store, best), shared[best], ledger)


def remember(context: Context, layers: Sequence[StoredLayer]) -> None:
    """Write down what the engine now has under the context's name."""
    name = context.path.name
    past = {key: digests for key, digests in _read(context.ledger).items() if key != name}
    ledger = {**past, name: sorted(layer.digest for layer in layers)}
    write_text(context.ledger, json.dumps(ledger) + "\n")


def _link(store: Store, name: str) -> Path:
    path = store.root / "contexts" / name
    path.parent.mkdir(exist_ok=True)
    if not path.is_symlink():
        path.symlink_to(Path("..", store.layers.name))
    return path


def _ledger(store: Store, engine: str) -> Path:
    name = hashlib.sha256(engine.encode()).hexdigest()[:16]
    return store.root / "contexts" / f"{name}.json"


def _read(ledger: Path) -> Mapping[str, Sequence[str]]:
    """Return the names and their digests, least recently used first; a damaged ledger is empty."""
    try:
        raw = json.loads(ledger.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(raw, dict):
        return {}
    return {name: digests for name, digests in raw.items()
            if name in NAMES and isinstance(digests, list)}
