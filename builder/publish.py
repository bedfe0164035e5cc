"""Stage publish: immutable tags and ``-next`` candidates to the registry; never the moving tag.

An image is pushed only when it is locked; a candidate only when this very image passed its smoke.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder import console
from builder import labels as label
from builder.direct_push import DirectPush, push_direct
from builder.engine.client import Engine, ImageFacts, RemoteLayer
from builder.errors import EngineError, NetworkError, VerdictError, command
from builder.locking.lock import Lock
from builder.record.models import Record
from builder.record.reader import image_passed
from builder.store.compressed import Compression
from builder.store.content_store import Store


@dataclass(frozen=True)
class Pushed:
    """An image in the registry: its reference, manifest digest and compressed ``layers``.

    ``previous`` is the image that its users have, empty for the first; ``missing`` are the layers
    that they lack, which is what an update costs them.
    """

    reference: str
    digest: str
    layers: tuple[RemoteLayer, ...]
    previous: str
    missing: tuple[RemoteLayer, ...]

    @property
    def size(self) -> int:
        """Return the compressed bytes of the whole image."""
        return sum(layer.size for layer in self.layers)

    @property
    def to_pull(self) -> int:
        """Return the bytes that a user of the previous image pulls."""
        return sum(layer.size for layer in self.missing)


def push_immutable(engine: Engine, image: ImageFacts, name: str, since: str = "") -> Pushed:
    """Push the image's immutable tag; refuses unlocked images.

    ``name`` is the cell's name without ``-next``; the update is measured against ``since``, or
    against what the registry has under ``name-next`` or ``name``.
    """
    tag = immutable_tag(image, name)
    previous, there = _previous(engine, name, since)
    before = _layers_now(engine, tag)
    digest = engine.push(tag)
    layers = engine.remote_layers(tag) or ()
    _warn_of_another_packing(tag, before, layers)
    return Pushed(tag, digest, layers, previous,
                  tuple(layer for layer in layers if layer.digest not in there))


def push_without_engine(engine: Engine, store: Store, image: ImageFacts, name: str, *,
                        records: Path | None, siblings: Sequence[str], compression: Compression,
                        since: str = "", known: Callable[[str], object] = lambda _digest: None
                        ) -> tuple[Pushed, DirectPush, str]:
    """Push as ``push_immutable`` does, and ``-next`` where ``records`` are given, by HTTP alone.

    ``known`` is told the manifest's digest while layers are still on their way. The third value is
    the candidate's name, empty without ``records``. Its conditions are those of ``push_next``; both
    tags get the same manifest.
    """
    tag = immutable_tag(image, name)
    candidate = candidate_name(image, name, records) if records is not None else ""
    previous, there = _previous(engine, name, since)
    before = _layers_now(engine, tag)
    document = engine.image_document(image.id)
    assert document is not None  # it was inspected a moment ago
    done = push_direct(engine, store, document, [tag, *([candidate] if candidate else [])],
                       siblings, compression, known)
    _warn_of_another_packing(tag, before, done.layers)
    pushed = Pushed(tag, done.digest, done.layers, previous,
                    tuple(layer for layer in done.layers if layer.digest not in there))
    return pushed, done, candidate


def immutable_tag(image: ImageFacts, name: str) -> str:
    """Return the image's immutable tag beside ``name``; raises VerdictError for an unlocked image.

    An image may have tags of several registries; only that of ``name``'s own is meant.
    """
    if image.labels.get(label.STATUS) != "locked":
        raise VerdictError("the image was built on an unlocked base and cannot be published",
                           where=image.labels.get(label.CELL, image.id),
                           next_step=f"lock the base ({command('base')}), then build again")
    short = image.labels[label.INPUTS].removeprefix("sha256:")[:12]
    beside = name.rpartition(":")[0] + ":"
    tags = [tag for tag in image.repo_tags if tag.startswith(beside) and tag.endswith(f"-{short}")]
    if not tags:
        raise VerdictError("the image has no tag that names its contents", where=image.id,
                           next_step="build it again")
    return tags[0]


def reference_of(records: Iterable[Record], name: str, lock: Lock | None, immutable: str
                 ) -> tuple[str, str]:
    """Return the best name of a cell's image for others, and what it is in one clause.

    ``name`` is the cell's local name. A digest comes from the newest record of an image of this
    very lock that was in the registry; else it is the ``immutable`` tag that a build of the lock
    gets, else ``name``, which moves.
    """
    repository = name.rpartition(":")[0]
    digest = next((record.image_digest for record in reversed([*records])
                   if lock and record.image_digest and record.labels.get(label.LOCK) == lock.digest
                   and record.image.partition("@")[0].startswith(f"{repository}:")), "")
    if digest:
        return f"{repository}@{digest}", "by the digest that a record of it names"
    if immutable:
        return immutable, ("by its immutable tag; after a push, a smoke test of the pushed image "
                           "records its digest")
    return name, ("by a name that moves to the newest build; after a push, a smoke test of the "
                  "pushed image records its digest")


def _previous(engine: Engine, name: str, since: str) -> tuple[str, frozenset[str]]:
    """Return the image that users have and its layers; ``since`` has to be there."""
    for reference in (since,) if since else (f"{name}-next", name):
        layers = engine.remote_layers(reference) if since else _layers_now(engine, reference)
        if layers is not None:
            return reference, frozenset(layer.digest for layer in layers)
    if since:
        raise VerdictError("the registry does not have the image named by --since", where=since,
                           next_step="omit --since, or name a tag that was pushed")
    return "", frozenset()


def _layers_now(engine: Engine, reference: str) -> tuple[RemoteLayer, ...] | None:
    """Return the layers that a name has in the registry; None where it has none.

    That is also so where they cannot be asked for: a damaged name is no reason not to push.
    """
    try:
        return engine.remote_layers(reference)
    except (NetworkError, EngineError):
        return None


def _warn_of_another_packing(tag: str, before: tuple[RemoteLayer, ...] | None,
                             after: tuple[RemoteLayer, ...]) -> None:
    if before is not None and before != after:
        console.warn(f"{tag} has other layers in the registry now: the engine, --direct and each "
                     "compression pack the same files in their own way. Whoever has it pulls it "
                     "anew, and records of the former digest do not count for this one")


def push_next(engine: Engine, image: ImageFacts, name: str, records: Path) -> str:
    """Push ``<name>-next``; refuses an image that no record says passed its smoke."""
    candidate = candidate_name(image, name, records)
    engine.tag(image.id, candidate)
    return engine.push(candidate)


def candidate_name(image: ImageFacts, name: str, records: Path) -> str:
    """Return ``<name>-next``; raises VerdictError unless a record says the image passed."""
    if not image_passed(records, image.id):
        raise VerdictError("this image has not passed its smoke test", where=name,
                           next_step=f"run {command('smoke', image.labels[label.CELL])}")
    return f"{name}-next"
