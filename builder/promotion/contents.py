"""What an image in a registry is: its labels, layers, and the versions that it was built from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from builder import labels as label
from builder.engine.client import RemoteLayer
from builder.errors import NetworkError
from builder.registry.repository import Manifest, Repository


@dataclass(frozen=True)
class RemoteImage:
    """An image by its manifest and its configuration."""

    manifest: Manifest
    config: Mapping[str, Any]

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the image's labels."""
        config = self.config.get("config")
        found = config.get("Labels") if isinstance(config, dict) else None
        return {str(key): str(value) for key, value in found.items()} if isinstance(
            found, dict) else {}

    @property
    def layers(self) -> tuple[RemoteLayer, ...]:
        """Return the compressed layers, from the lowest to the topmost."""
        listed = self.manifest.value.get("layers")
        return tuple(RemoteLayer(str(one.get("digest")), _size(one.get("size")))
                     for one in (listed if isinstance(listed, list) else [])
                     if isinstance(one, dict))

    @property
    def diff_ids(self) -> tuple[str, ...]:
        """Return the digests of the uncompressed layers."""
        rootfs = self.config.get("rootfs")
        listed = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
        return tuple(map(str, listed)) if isinstance(listed, list) else ()

    @property
    def versions(self) -> dict[str, str]:
        """Return the versions that the labels name, of the packages that matter most."""
        return {key.removeprefix(label.VERSION): value for key, value in self.labels.items()
                if key.startswith(label.VERSION)}


def _size(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def read_remote(repository: Repository, manifest: Manifest) -> RemoteImage:
    """Read an image's configuration; raises NetworkError where the registry has none."""
    data = repository.blob(manifest.config) if manifest.config else None
    try:
        config = json.loads(data or b"")
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise NetworkError("this is not an image, or its configuration is gone",
                           where=f"{repository.name}@{manifest.digest}",
                           next_step="name the tag or digest of an image")
    return RemoteImage(manifest, config)
