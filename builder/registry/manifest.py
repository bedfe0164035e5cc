"""The two documents of an image in a registry: its configuration and its manifest.

Both are made of what the image is, in one fixed form: no time, no host, no version of an engine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from builder import labels as label
from builder.errors import NetworkError
from builder.registry.client import Client, FailingError
from builder.registry.upload import Blob
from builder.tarball import MTIME

CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+"  # and the compression
# Of an engine's configuration, what OCI's specification has; the rest is the engine's own.
FIELDS = ("User", "ExposedPorts", "Env", "Entrypoint", "Cmd", "Volumes", "WorkingDir", "Labels",
          "StopSignal")
ENGINE_LABELS = (label.PREFIX + "buildkit",)  # which engine built it here: not part of the image


@dataclass(frozen=True)
class ManifestLayer:
    """One layer: the DiffID of its tar, its compressed blob, and what made it."""

    diff_id: str
    blob: Blob
    compression: str
    created_by: str


def document(value: Mapping[str, Any]) -> Blob:
    """Return JSON in one fixed form, as a blob."""
    data = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return Blob(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data), data)


def image_config(image: Mapping[str, Any], layers: Sequence[ManifestLayer]) -> Blob:
    """Return the configuration, from what the engine says of the image (``docker inspect``)."""
    created = datetime.fromtimestamp(MTIME, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = {key: value for key in FIELDS if (value := image["Config"].get(key))}
    if "Labels" in config:
        config["Labels"] = {key: value for key, value in config["Labels"].items()
                            if key not in ENGINE_LABELS}
    return document({
        "architecture": image["Architecture"], "os": image["Os"], "created": created,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": created, "created_by": layer.created_by} for layer in layers],
    })


def image_manifest(config: Blob, layers: Sequence[ManifestLayer]) -> Blob:
    """Return the manifest, which names every other blob by digest and size."""
    return document({
        "schemaVersion": 2, "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": CONFIG_TYPE, "digest": config.digest, "size": config.size},
        "layers": [{"mediaType": f"{LAYER_TYPE}{layer.compression}", "digest": layer.blob.digest,
                    "size": layer.blob.size} for layer in layers],
    })


def put_manifest(client: Client, manifest: Blob, tag: str) -> bool:
    """Put the manifest under ``tag``, last of all; say whether it stood there already.

    What the registry then has under the tag is read back and compared. Raises NetworkError.
    """
    assert isinstance(manifest.source, bytes)
    url = client.url(f"manifests/{tag}")
    with suppress(FailingError):  # a damaged tag is mended by writing it
        if client.ask("GET", url, kind=MANIFEST_TYPE).body == manifest.source:
            return True
    reply = client.ask("PUT", url, body=manifest.source, kind=MANIFEST_TYPE)
    if reply.status not in (201, 202):
        raise NetworkError(f"the registry does not take the manifest: {client.answered(reply)}",
                           where=f"{client.reference.repository}:{tag}",
                           next_step="push again; does this registry take OCI images?")
    there = client.ask("GET", url, kind=MANIFEST_TYPE)
    if there.status != 200 or there.body != manifest.source:
        actual = hashlib.sha256(there.body).hexdigest()
        raise NetworkError("the registry has another manifest under the tag than the one pushed\n"
                           f"  expected {manifest.digest}\n  actual   sha256:{actual}",
                           where=f"{client.reference.repository}:{tag}",
                           next_step="push again, unless somebody else pushes the same tag")
    return False
