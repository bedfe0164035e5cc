"""A root file system tar into an image of our own making, for ``docker load``.

The configuration is written here, not by BuildKit, so its digest (the image id) is the same with
every engine and can be compared with the lock without asking one.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from builder import labels as label
from builder.tarball import MTIME, Tar


@dataclass(frozen=True)
class BaseImage:
    """An image as bytes: its configuration and its one layer."""

    config: bytes
    rootfs: Tar

    @property
    def id(self) -> str:
        """Return the digest of the configuration."""
        return "sha256:" + hashlib.sha256(self.config).hexdigest()

    @property
    def diff_ids(self) -> tuple[str, ...]:
        """Return the digests of the uncompressed layers."""
        return (f"sha256:{self.rootfs.digest}",)


def make_image(rootfs: Tar, arch: str, epoch: int, env: Mapping[str, str],
               labels: Mapping[str, str]) -> BaseImage:
    """Return the image of ``rootfs``; ``labels`` get their prefix here."""
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = {
        "architecture": arch,
        "config": {
            "Cmd": ["/bin/bash"],
            "Env": [f"{key}={value}" for key, value in env.items()],
            "Labels": {label.PREFIX + key: value for key, value in sorted(labels.items())},
        },
        "created": created,
        "history": [{"created": created, "created_by": "sparkyard base"}],
        "os": "linux",
        "rootfs": {"diff_ids": [f"sha256:{rootfs.digest}"], "type": "layers"},
    }
    return BaseImage(json.dumps(config, sort_keys=True, separators=(",", ":")).encode(), rootfs)


def write_archive(image: BaseImage, reference: str, target: Path) -> None:
    """Write ``image`` as an archive that ``docker load`` takes, named ``reference``."""
    layer = f"{image.rootfs.digest}/layer.tar"
    config = f"{image.id.removeprefix('sha256:')}.json"
    manifest = [{"Config": config, "RepoTags": [reference], "Layers": [layer]}]
    with tarfile.open(target, "w") as archive:
        texts = {config: image.config, "manifest.json": json.dumps(manifest).encode()}
        for name, data in texts.items():
            archive.addfile(_info(name, len(data)), io.BytesIO(data))
        with image.rootfs.path.open("rb") as stream:
            archive.addfile(_info(layer, image.rootfs.size), stream)


def _info(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o644, MTIME
    return info
