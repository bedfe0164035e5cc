"""What one repository of a registry holds: manifests, small blobs, tags and referrers.

A referrer is an artifact whose manifest names another manifest as its ``subject``: a record, a
lock, a list of contents. Where the registry has no referrers API, the tag ``sha256-<digest>`` of
the subject holds the list of them, as OCI's distribution specification has it.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from builder import labels as label
from builder.errors import NetworkError
from builder.registry.client import Client, FailingError, OtherBytesError, Reply
from builder.registry.manifest import MANIFEST_TYPE, document
from builder.registry.upload import OCTETS, Blob

INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
DOCKER_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
ACCEPTED = f"{MANIFEST_TYPE}, {INDEX_TYPE}, {DOCKER_TYPE}"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
EMPTY = Blob(f"sha256:{hashlib.sha256(b'{}').hexdigest()}", 2, b"{}")
EMPTY_DESCRIPTOR = {"mediaType": EMPTY_TYPE, "digest": EMPTY.digest, "size": EMPTY.size}
MOST_PAGES = 1000  # of a list of tags
LIST_ATTEMPTS = 8  # two at once write the list of referrers: one reads it again and adds its own


@dataclass(frozen=True)
class Manifest:
    """A manifest as the registry gave it; ``digest`` is that of its very bytes."""

    digest: str
    media_type: str
    data: bytes

    @property
    def value(self) -> dict[str, Any]:
        """Return the document; empty where it is no JSON object."""
        try:
            value = json.loads(self.data)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def config(self) -> str:
        """Return the digest of an image's configuration, which the engine calls its id."""
        config = self.value.get("config")
        return str(config.get("digest", "")) if isinstance(config, dict) else ""


@dataclass(frozen=True)
class Artifact:
    """One referrer: its manifest's digest, its type, and its notes."""

    digest: str
    type: str
    notes: Mapping[str, str]


class Repository:
    """The repository that a client's reference names."""

    def __init__(self, client: Client) -> None:
        """Nothing is asked yet."""
        self.client = client

    @property
    def name(self) -> str:
        """Return ``host/repository``."""
        return f"{self.client.reference.host}/{self.client.reference.repository}"

    def tags(self) -> tuple[str, ...]:
        """Return every tag; none where the repository is not there."""
        names: list[str] = []
        url = self.client.url("tags/list")
        for _ in range(MOST_PAGES):
            reply = self.client.ask("GET", url)
            if reply.status == 404:
                return ()
            if reply.status != 200:
                raise self._unexpected("does not list its tags", reply)
            names += _texts(_json(reply.body).get("tags"))
            following = _next_page(reply.header("Link"), url)
            if not following:
                break
            url = following
        return tuple(dict.fromkeys(names))

    def manifest(self, name: str) -> Manifest | None:
        """Return the manifest under a tag or digest; None where there is none.

        Raises OtherBytesError where the bytes are not those of the digest that was asked for, or
        that the registry names beside them.
        """
        reply = self.client.ask("GET", self.client.url(f"manifests/{name}"), kind=ACCEPTED)
        if reply.status == 404:
            return None
        if reply.status != 200:
            raise self._unexpected("does not give a manifest", reply)
        digest = f"sha256:{hashlib.sha256(reply.body).hexdigest()}"
        named = name if name.startswith("sha256:") else reply.header("Docker-Content-Digest")
        if named.startswith("sha256:") and named != digest:
            raise self._other_bytes(named, digest)
        said = str(_json(reply.body).get("mediaType") or "")
        return Manifest(digest, said or reply.header("Content-Type").partition(";")[0] or
                        MANIFEST_TYPE, reply.body)

    def replaceable(self, name: str) -> Manifest | None:
        """Return the manifest under a name for one who is about to write it.

        None also where the registry cannot read the name any more; writing it mends that.
        """
        try:
            return self.manifest(name)
        except FailingError:
            return None

    def put(self, name: str, data: bytes, media_type: str) -> None:
        """Put a manifest under a tag or its digest; raises NetworkError where it is not taken."""
        reply = self.client.ask("PUT", self.client.url(f"manifests/{name}"), body=data,
                                kind=media_type)
        if reply.status not in (200, 201, 202):
            raise self._unexpected(f"does not take the manifest {name}", reply)

    def point(self, tag: str, manifest: Manifest) -> None:
        """Let a tag point at a manifest that the repository has."""
        self.put(tag, manifest.data, manifest.media_type)

    def delete(self, digest: str) -> None:
        """Delete a manifest and the tags that point at it; raises NetworkError where refused."""
        reply = self.client.ask("DELETE", self.client.url(f"manifests/{digest}"))
        if reply.status == 405:
            raise NetworkError("the registry does not allow to delete", where=self.name,
                               next_step="its operator may allow it: storage.delete.enabled in the "
                               "configuration of Debian's registry")
        if reply.status not in (200, 202, 404):
            raise self._unexpected("does not delete a manifest", reply)

    def blob(self, digest: str) -> bytes | None:
        """Return a small blob; None where it is missing; raises OtherBytesError."""
        reply = self.client.ask("GET", self.client.url(f"blobs/{digest}"))
        if reply.status == 404:
            return None
        if reply.status != 200:
            raise self._unexpected("does not give a blob", reply)
        actual = f"sha256:{hashlib.sha256(reply.body).hexdigest()}"
        if actual != digest:
            raise self._other_bytes(digest, actual)
        return reply.body

    def stream(self, digest: str, limit: int) -> Iterator[bytes]:
        """Yield a large blob piece by piece, unchecked; raises NetworkError."""
        return self.client.download(self.client.url(f"blobs/{digest}"), limit)

    def put_blob(self, blob: Blob) -> None:
        """Bring a small blob into the repository, unless it is there."""
        assert isinstance(blob.source, bytes)
        with suppress(FailingError):  # what is damaged is mended by sending it
            if self.client.ask("HEAD", self.client.url(f"blobs/{blob.digest}")).status == 200:
                return
        url = self.client.url("blobs/uploads/")
        started = self.client.ask("POST", url)
        if started.status != 202:
            raise self._unexpected("does not take a blob", started)
        place = self.client.location(started, url)
        joint = "&" if "?" in place else "?"
        reply = self.client.ask("PUT", f"{place}{joint}digest={quote(blob.digest, safe='')}",
                                body=blob.source, kind=OCTETS)
        if reply.status not in (201, 204):
            raise self._unexpected("does not take a blob", reply)

    def note(self, tag: str, kind: str, notes: Mapping[str, str]) -> str:
        """Put a manifest that holds nothing but ``notes`` under a tag; return its digest."""
        self.put_blob(EMPTY)
        manifest = note_manifest(kind, notes)
        assert isinstance(manifest.source, bytes)
        self.put(tag, manifest.source, MANIFEST_TYPE)
        return manifest.digest

    def attach(self, subject: Manifest, kind: str, data: bytes, notes: Mapping[str, str],
               title: str) -> str:
        """Attach bytes to a manifest as an artifact of a type; return the artifact's digest.

        The same bytes with the same notes are one artifact, however often they are attached.
        """
        entry = self._put_artifact(subject, kind, data, notes, title)
        if self._referrers_api(subject.digest) is None:
            self._list(subject.digest, entry)
        return str(entry["digest"])

    def _put_artifact(self, subject: Manifest, kind: str, data: bytes, notes: Mapping[str, str],
                      title: str) -> dict[str, Any]:
        """Bring an artifact into the repository; return its entry in the list of its subject."""
        blob = Blob(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data), data)
        for part in (EMPTY, blob):
            self.put_blob(part)
        artifact = document({
            "schemaVersion": 2, "mediaType": MANIFEST_TYPE, "artifactType": kind,
            "config": EMPTY_DESCRIPTOR,
            "layers": [{"mediaType": kind, "digest": blob.digest, "size": blob.size,
                        "annotations": {label.OCI + "title": title}}],
            "subject": {"mediaType": subject.media_type, "digest": subject.digest,
                        "size": len(subject.data)},
            "annotations": dict(notes)})
        assert isinstance(artifact.source, bytes)
        if self.replaceable(artifact.digest) is None:  # writing what is sound could damage it
            self.put(artifact.digest, artifact.source, MANIFEST_TYPE)
        return {"mediaType": MANIFEST_TYPE, "digest": artifact.digest, "size": artifact.size,
                "artifactType": kind, "annotations": dict(notes)}

    def referrers(self, digest: str, kind: str = "") -> tuple[Artifact, ...]:
        """Return what is attached to a manifest, of one type or of all."""
        listed = self._referrers_api(digest)
        if listed is None:
            found = self.manifest(fallback_tag(digest))
            listed = _entries(found.value) if found else []
        artifacts = (_artifact(entry) for entry in listed)
        return tuple(one for one in artifacts if one.digest and kind in ("", one.type))

    def mend_list(self, subject: Manifest, kind: str, notes: Mapping[str, str]) -> bool:
        """Begin the list of what is attached anew where the registry cannot read it any more.

        Say whether that was so. What was on the list is still there, but nobody finds it. So the
        new list never stands without its first entry, an artifact of ``kind``, which says so.
        """
        if self._referrers_api(subject.digest) is not None:
            return False
        try:
            self.manifest(fallback_tag(subject.digest))
        except (FailingError, OtherBytesError):
            # No two are alike: under a digest a registry keeps the bytes it has, damaged ones, too.
            mark = json.dumps({"loss": uuid.uuid4().hex}).encode()
            lost = self._put_artifact(subject, kind, mark, notes, "lost.json")
            self._put_list(subject.digest, [lost])
            return True
        return False

    def attached(self, artifact: Artifact, subject: str) -> bytes | None:
        """Return an artifact's bytes; None where it is gone, or is not of this subject."""
        manifest = self.manifest(artifact.digest)
        if manifest is None:
            return None
        about, layers = manifest.value.get("subject"), manifest.value.get("layers")
        if not isinstance(about, dict) or about.get("digest") != subject:
            return None
        if not isinstance(layers, list) or len(layers) != 1 or not isinstance(layers[0], dict):
            return None
        return self.blob(str(layers[0].get("digest")))

    def _referrers_api(self, digest: str) -> list[Any] | None:
        """Return the registry's own list; None where it has no referrers API."""
        reply = self.client.ask("GET", self.client.url(f"referrers/{digest}"), kind=INDEX_TYPE)
        if reply.status == 200 and _json(reply.body).get("mediaType") == INDEX_TYPE:
            return _entries(_json(reply.body))
        if reply.status in (200, 400, 404, 405):
            return None
        raise self._unexpected("does not list what is attached", reply)

    def _list(self, digest: str, entry: dict[str, Any]) -> None:
        """Add an artifact to the list under the fallback tag, and see that it stays there.

        A registry has no compare-and-swap: whoever finds its own entry missing adds it again.
        """
        tag = fallback_tag(digest)
        for _ in range(LIST_ATTEMPTS):
            found = self.manifest(tag)
            listed = _entries(found.value) if found else []
            if any(_artifact(one).digest == entry["digest"] for one in listed):
                return
            self._put_list(digest, [*listed, entry])
        raise NetworkError("the list of what is attached keeps changing",
                           where=f"{self.name}:{tag}",
                           next_step="run the same command again when no other run attaches")

    def _put_list(self, digest: str, entries: Sequence[Mapping[str, Any]]) -> None:
        index = document({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries})
        assert isinstance(index.source, bytes)
        self.put(fallback_tag(digest), index.source, INDEX_TYPE)

    def _unexpected(self, what: str, reply: Reply) -> NetworkError:
        return NetworkError(f"the registry {what}: {self.client.answered(reply)}", where=self.name,
                            next_step="is this address a registry, and may this user use it?")

    def _other_bytes(self, expected: str, actual: str) -> OtherBytesError:
        return OtherBytesError("the registry gives other bytes than those of the digest\n"
                               f"  expected {expected}\n  actual   {actual}", where=self.name,
                               next_step="the registry is damaged, or another server answers")


def note_manifest(kind: str, notes: Mapping[str, str]) -> Blob:
    """Return the manifest of an artifact without content of its own."""
    return document({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "artifactType": kind,
                     "config": EMPTY_DESCRIPTOR, "layers": [EMPTY_DESCRIPTOR],
                     "annotations": dict(notes)})


def fallback_tag(digest: str) -> str:
    """Return the tag under which a registry without referrers API has the list of a manifest."""
    return digest.replace(":", "-", 1)


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _texts(raw: Any) -> list[str]:
    return [item for item in raw if isinstance(item, str)] if isinstance(raw, list) else []


def _entries(value: Mapping[str, Any]) -> list[Any]:
    found = value.get("manifests")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _artifact(entry: Mapping[str, Any]) -> Artifact:
    notes = entry.get("annotations")
    return Artifact(str(entry.get("digest", "")), str(entry.get("artifactType", "")),
                    {str(key): str(value) for key, value in notes.items()}
                    if isinstance(notes, dict) else {})


def _next_page(link: str, url: str) -> str:
    """Return the address of a list's next page, on the same host; empty for the last page."""
    target, _, rest = link.partition(">")
    if 'rel="next"' not in rest or not target.startswith("<"):
        return ""
    following = urljoin(url, target[1:])
    return following if urlsplit(following).netloc == urlsplit(url).netloc else ""
