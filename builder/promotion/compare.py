"""Two images of a registry side by side: versions, packages, patches, layers, bytes and records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from builder import labels as label
from builder.engine.client import RemoteLayer
from builder.errors import VerdictError, command
from builder.promotion.contents import RemoteImage
from builder.promotion.evidence import describe, gather
from builder.promotion.verify import SBOM_TYPE
from builder.registry.repository import Repository
from builder.sbom import contents

Change = tuple[str, str]  # before and after; empty where it is not there


@dataclass(frozen=True)
class Side:
    """One of the two: what it is made of, and what its records say."""

    image: RemoteImage
    wheels: Mapping[str, str]
    debs: Mapping[str, str]
    patches: tuple[str, ...]
    records: tuple[str, ...]
    listed: bool


@dataclass(frozen=True)
class Difference:
    """What changes from one image to another.

    ``missing`` are the layers that a holder of the first one pulls for the second.
    """

    before: Side
    after: Side
    wheels: Mapping[str, Change]
    debs: Mapping[str, Change]
    patches: Mapping[str, Change]
    missing: tuple[RemoteLayer, ...]

    @property
    def to_pull(self) -> int:
        """Return the compressed bytes that a holder of the first pulls."""
        return sum(layer.size for layer in self.missing)


def read_side(repository: Repository, image: RemoteImage) -> Side:
    """Read what is attached to an image; without a list of contents its labels must do."""
    digest = image.manifest.digest
    documents = {data for artifact in repository.referrers(digest, SBOM_TYPE)
                 if (data := repository.attached(artifact, digest))}
    listed = bool(documents)
    if len(documents) > 1:  # as `sbom` does: nobody knows which of them is wrong
        raise VerdictError(f"{len(documents)} lists of contents (SBOM) are attached, and they "
                           "differ", where=f"{repository.name}@{digest}",
                           next_step=f"see which one is wrong: {command('verify', 'CELL')}")
    wheels, debs, patches = (_listed(documents.pop()) if documents
                             else (dict(image.versions), {}, ()))
    patched = {key.removeprefix(label.PATCHED): value for key, value in image.labels.items()
               if key.startswith(label.PATCHED)}
    records = tuple(f"{record.verdict}: {describe(record)}"
                    for record in gather(repository, digest).records)
    return Side(image, {**wheels, **{name: version for name, version in patched.items()
                                     if name in wheels}}, debs, patches, records, listed)


def compare(before: Side, after: Side) -> Difference:
    """Return what changes."""
    there = {layer.digest for layer in before.image.layers}
    return Difference(
        before, after, changes(before.wheels, after.wheels), changes(before.debs, after.debs),
        changes(dict.fromkeys(before.patches, "applied"), dict.fromkeys(after.patches, "applied")),
        tuple(layer for layer in after.image.layers if layer.digest not in there))


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Change]:
    """Return the names whose values differ, with both values."""
    return {name: (before.get(name, ""), after.get(name, ""))
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name)}


def _listed(data: bytes) -> tuple[dict[str, str], dict[str, str], tuple[str, ...]]:
    try:
        document = json.loads(data)
        wheels, debs = contents(document)
        patches = tuple(f"{one['name']} ({one['version'][:12]})" for one in document["components"]
                        if str(one.get("bom-ref", "")).startswith("patch:"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        return {}, {}, ()
    return wheels, debs, patches
