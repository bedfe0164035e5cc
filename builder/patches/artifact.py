"""Patches beside the images: one OCI artifact each, found again by the sha256 of its diff.

A force-push can make a hosting service forget a commit; the registry that serves the image still
has the bytes that it was made from. The diff is the artifact's only blob, so its sha256 is its
address in any registry; the tag keeps it from being collected as garbage.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder.errors import NetworkError
from builder.lock import LockedPatch
from builder.patches.diffs import digest_of

if TYPE_CHECKING:
    from oras.client import OrasClient  # type: ignore[import-untyped]

REPOSITORY = "patches"
MEDIA_TYPE = "text/x-diff"
LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")
TIMEOUT_S = (5.0, 30.0)  # to connect, and of silence


def reference(registry: str, sha256: str) -> str:
    """Return the artifact's name in the registry that holds the images."""
    return f"{registry}/{REPOSITORY}:sha256-{sha256}"


def push(registry: str, patch: LockedPatch, data: bytes) -> str:
    """Push a patch's bytes unless they are there, and return their name; raises NetworkError."""
    name = reference(registry, patch.sha256)
    if pull(registry, patch.sha256) is not None:
        return name
    notes = {"org.opencontainers.image.title": patch.source,
             "org.opencontainers.image.revision": patch.head,
             "org.sparkyard.patch.base": patch.base}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{patch.sha256}.diff")
        path.write_bytes(data)
        try:
            _client(registry).push(name, files=[f"{path}:{MEDIA_TYPE}"],
                                   disable_path_validation=True, manifest_annotations={
                                       key: value for key, value in notes.items() if value})
        except (OSError, ValueError) as error:  # what requests and oras raise
            raise NetworkError("the registry does not take the patch", where=name,
                               next_step="is it there, and are you logged in to it?") from error
    return name


def pull(registry: str, sha256: str) -> bytes | None:
    """Return the bytes of a patch; None where the registry is not there or has no such bytes."""
    client = _client(registry)
    try:
        container = client.get_container(f"{registry}/{REPOSITORY}")
        client.auth.load_configs(container)
        reply = client.get_blob(container, f"sha256:{sha256}")
    except (OSError, ValueError):
        return None
    data: bytes = reply.content
    return data if reply.status_code == 200 and digest_of(data) == sha256 else None


def _client(registry: str) -> OrasClient:
    """Return a client; Docker too speaks plain HTTP to a registry of this machine alone."""
    # Imported here: it takes longer to import than a build with nothing to do may last.
    from oras.client import OrasClient
    from requests.adapters import HTTPAdapter

    class Adapter(HTTPAdapter):
        def send(self, *args: Any, **options: Any) -> Any:
            return super().send(*args, **{**options, "timeout": TIMEOUT_S})

    class Once(OrasClient):  # type: ignore[misc]
        # oras asks a registry that is not there six times, for two minutes in all.
        do_request = OrasClient.do_request.__wrapped__

    host = registry.partition("/")[0]
    client = Once(hostname=host, insecure=LOOPBACK.fullmatch(host) is not None)
    for scheme in ("http://", "https://"):
        client.session.mount(scheme, Adapter())
    return client
