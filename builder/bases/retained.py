"""What the registry keeps of a locked base: the image, and its Debian packages as an artifact.

The image alone is enough to build on: nothing has to be made again. The packages beside it let
anyone make the base again and compare, once Debian's mirrors have dropped them. Each package is a
blob under its own sha256, which the lock names: nothing but the lock has to be trusted, and bases
share what they have in common.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from builder import console
from builder import labels as label
from builder.bases.state import image_tag
from builder.debian.fetch import place
from builder.errors import NetworkError
from builder.locking.base_lock import LockedBase, LockedDeb
from builder.registry.client import Client
from builder.registry.manifest import MANIFEST_TYPE, document
from builder.registry.reference import parse
from builder.registry.repository import (
    EMPTY,
    EMPTY_DESCRIPTOR,
    Manifest,
    Repository,
)
from builder.registry.upload import Blob, Uploader

PACKAGES_TYPE = "application/vnd.sparkyard.base-packages.v1"
DEB_TYPE = "application/vnd.debian.binary-package"
SUFFIX = ".packages"  # of the tag of the artifact, after the image's own
JOURNALS = "uploads"
AT_ONCE = 4
SLACK_BYTES = 1 << 16


def repository_of(registry: str, locked: LockedBase) -> Repository:
    """Return the repository of a base."""
    return Repository(Client(parse(image_tag(registry, locked))))


def packages_tag(locked: LockedBase) -> str:
    """Return the tag of the artifact that holds a base's packages."""
    return image_tag("x", locked).rpartition(":")[2] + SUFFIX


def image_digest(repository: Repository, locked: LockedBase) -> str | None:
    """Return the manifest of the locked image, None where the registry lacks it.

    It is looked for under its tag, then by the locked digest. One whose configuration is another
    than the locked is never used, and named: the configuration has the digests of all layers.
    Raises NetworkError where the registry does not answer.
    """
    tagged = repository.manifest(repository.client.reference.tag)
    if tagged is not None and _is_locked(repository, tagged, locked):
        return tagged.digest
    try:
        named = repository.manifest(locked.digest)
    except NetworkError as error:  # other bytes than those of the digest
        console.warn(f"the registry's base {locked.name} {locked.platform} is not used: "
                     f"{error.what}")
        return None
    return named.digest if named and _is_locked(repository, named, locked) else None


def _is_locked(repository: Repository, manifest: Manifest, locked: LockedBase) -> bool:
    """Say whether a manifest is that of the locked image; another one is named to the user."""
    if locked.image_id in (manifest.digest, *_configurations(repository, manifest)):
        return True
    console.warn(f"{repository.name}@{manifest.digest} stands in the registry for the base "
                 f"{locked.name} {locked.platform}, but its configuration is not the locked one: "
                 "it is not used")
    return False


def _configurations(repository: Repository, manifest: Manifest) -> list[str]:
    """Return the digest of a manifest's configuration; of each platform's, for a list of images."""
    listed = manifest.value.get("manifests")
    if not isinstance(listed, list):
        return [manifest.config]
    digests = [str(entry.get("digest")) for entry in listed if isinstance(entry, dict)]
    children = [repository.manifest(digest) for digest in digests if digest.startswith("sha256:")]
    return [child.config for child in children if child]


def keep_packages(repository: Repository, locked: LockedBase, cache: Path) -> int:
    """Bring a base's packages into the registry; return how many were not there.

    They must be in the cache. Nothing is sent where the artifact is there already. Raises
    NetworkError where the registry does not take them.
    """
    artifact, tag = packages_manifest(locked), packages_tag(locked)
    found = repository.replaceable(tag)
    if found is not None and found.digest == artifact.digest:
        return 0
    blobs = [Blob(f"sha256:{deb.sha256}", deb.size, place(cache / "debs", deb))
             for deb in locked.packages]
    sizes = sum(blob.size for blob in blobs)
    with (console.progress("keeping Debian packages in the registry", sizes) as meter,
          ThreadPoolExecutor(AT_ONCE) as pool):
        uploader = Uploader(repository.client, cache / JOURNALS, step=meter.advance)
        sent = sum(done.sent > 0 for done in pool.map(uploader.deliver, blobs))
        uploader.deliver(EMPTY)
    assert isinstance(artifact.source, bytes)
    repository.put(tag, artifact.source, MANIFEST_TYPE)
    return sent


def packages_kept(repository: Repository, locked: LockedBase) -> bool:
    """Say whether the registry has all packages of a base; raises NetworkError."""
    found = repository.replaceable(packages_tag(locked))
    return found is not None and found.digest == packages_manifest(locked).digest


def packages_manifest(locked: LockedBase) -> Blob:
    """Return the artifact's manifest: a layer for each package, in the order of the lock."""
    return document({
        "schemaVersion": 2, "mediaType": MANIFEST_TYPE, "artifactType": PACKAGES_TYPE,
        "config": EMPTY_DESCRIPTOR,
        "layers": [{"mediaType": DEB_TYPE, "digest": f"sha256:{deb.sha256}", "size": deb.size,
                    "annotations": {label.OCI + "title": Path(deb.path).name}}
                   for deb in locked.packages],
        "annotations": {label.PREFIX + "base": f"{locked.name} {locked.platform}",
                        label.PREFIX + "base.id": locked.image_id}})


@dataclass(frozen=True)
class RetainedPackages:
    """The registry as a source of a base's packages, for ``debian.fetch``."""

    registry: str
    locked: LockedBase
    at_once: int = AT_ONCE

    @property
    def title(self) -> str:
        """Return what it is called in messages."""
        return f"the registry ({self.registry})"

    @cached_property
    def repository(self) -> Repository:
        """Return the repository of the base."""
        return repository_of(self.registry, self.locked)

    def get(self, deb: LockedDeb, target: Path) -> bool:
        """Write a package to ``target``; return false where the registry does not have it."""
        digest = f"sha256:{deb.sha256}"
        client = self.repository.client
        if client.ask("HEAD", client.url(f"blobs/{digest}")).status == 404:
            return False
        state = hashlib.sha256()
        with target.open("wb") as stream:
            for chunk in self.repository.stream(digest, deb.size + SLACK_BYTES):
                state.update(chunk)
                stream.write(chunk)
        if state.hexdigest() != deb.sha256:
            raise NetworkError(f"the registry gives other bytes for {deb.name} {deb.version} than "
                               "the locked ones", where=f"{self.repository.name}@{digest}",
                               next_step="the registry is damaged, or another server answers")
        return True
