"""Patches beside the images: one OCI artifact each, found again by the sha256 of its diff.

A force-push can make a hosting service forget a commit; the registry that serves the image still
has the bytes that it was made from. The diff is the artifact's only blob, so its sha256 is its
address in any registry; the tag keeps it from being collected as garbage.
"""

from __future__ import annotations

import re
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from urllib3.exceptions import HTTPError

from builder import labels as label
from builder import limits
from builder.errors import NetworkError
from builder.limits import TooMuchError, bounded
from builder.locking.lock import LockedPatch
from builder.patches.diffs import digest_of
from builder.text import redact

if TYPE_CHECKING:
    from oras.client import OrasClient  # type: ignore[import-untyped]

REPOSITORY = "patches"
MEDIA_TYPE = "text/x-diff"
LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")
# What requests and oras raise; the last three where a registry answers what oras did not foresee.
RAISED = (OSError, ValueError, AttributeError, LookupError, TypeError)
CHUNK_BYTES = 1 << 16
TIMEOUT_S = (5.0, 30.0)  # to connect, and of silence


def reference(registry: str, sha256: str) -> str:
    """Return the artifact's name in the registry that holds the images."""
    return f"{registry}/{REPOSITORY}:sha256-{sha256}"


def push(registry: str, sha256: str, data: bytes, origin: LockedPatch | None = None) -> str:
    """Push a patch's bytes unless they are there under their tag; return the artifact's name.

    Raises NetworkError where the registry does not take them, or does not give them back.
    """
    name = reference(registry, sha256)
    if _is_tagged(registry, name, sha256) and pull(registry, sha256) is not None:
        return name
    refused = NetworkError("the registry did not accept the patch", where=redact(name),
                           next_step="check that the registry runs and that you are logged in to "
                           "it: `docker login REGISTRY`")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{sha256}.diff")
        path.write_bytes(data)
        try:
            _client(registry).push(name, files=[f"{path}:{MEDIA_TYPE}"],
                                   disable_path_validation=True,
                                   manifest_annotations=_notes(origin))
        except RAISED as error:
            raise refused from error
    if pull(registry, sha256) is None:
        raise refused  # a page that says 200 to everything is no registry
    return name


def _notes(origin: LockedPatch | None) -> dict[str, str]:
    notes = {} if origin is None else {f"{label.OCI}title": origin.source,
                                       f"{label.OCI}revision": origin.head,
                                       label.PREFIX + "patch.base": origin.base}
    return {key: value for key, value in notes.items() if value}


def pull(registry: str, sha256: str) -> bytes | None:
    """Return the bytes of a patch; None where the registry is not there or has no such bytes."""
    try:
        client = _client(registry)
        container = client.get_container(f"{registry}/{REPOSITORY}")
        client.auth.load_configs(container)
        with client.get_blob(container, f"sha256:{sha256}", stream=True) as reply:
            # read1 returns what has come: read would wait for a whole piece, however slow.
            pieces = iter(partial(reply.raw.read1, CHUNK_BYTES), b"")
            data = b"".join(bounded(pieces, limits.PATCH_BYTES, limits.HOSTING_S))
    except (*RAISED, TooMuchError, HTTPError):
        return None
    return data if reply.status_code == 200 and digest_of(data) == sha256 else None


def _is_tagged(registry: str, name: str, sha256: str) -> bool:
    """Say whether the tag holds the bytes: a push that was killed leaves a blob without one."""
    try:
        client = _client(registry)
        layers = client.get_manifest(client.get_container(name))["layers"]
        return f"sha256:{sha256}" in [layer["digest"] for layer in layers]
    except RAISED:
        return False


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
