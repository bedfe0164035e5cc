"""A registry in memory, asked through the real client's own method; runs step by step, and dies.

``Stage`` lets several runs go on side by side: each waits before every request until it is chosen,
so that a test decides the order of all requests, and at which of them a run is killed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import zstandard

from builder.errors import NetworkError
from builder.record.models import Record
from builder.registry.client import Client, RegistryFault, Reply
from builder.registry.manifest import (
    CONFIG_TYPE,
    MANIFEST_TYPE,
    ManifestLayer,
    document,
    image_config,
    image_manifest,
)
from builder.registry.reference import parse
from builder.registry.repository import INDEX_TYPE, Manifest, Repository
from builder.registry.upload import Blob

REFERENCE = "127.0.0.1:5000/team/cpu:cpu"


def digest_of(data: bytes) -> str:
    """Return ``sha256:…`` of the bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass
class Memory:
    """What one repository holds, with a hook that sees every tag that is put."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    referrers_api: bool = False
    deletes: bool = True
    page: int = 0  # tags on one page of the list; 0: all
    spoils: int = -1  # the tag's put, counted from 0, at which the disk is full; see _spoiled
    damaged: set[str] = field(default_factory=set)  # tags and digests, until they are put again
    on_tag: Callable[[str, str], None] = lambda _tag, _digest: None
    requests: list[tuple[str, str]] = field(default_factory=list)

    def answer(self, method: str, path: str, body: bytes, kind: str) -> Reply:
        """Answer one request; ``path`` begins after the repository's name."""
        self.requests.append((method, path))
        part, _, name = path.partition("/")
        if part == "tags":
            return self._tags(name)
        if part == "manifests":
            return self._manifest(method, name, body, kind)
        if part == "blobs":
            return self._blob(method, name, body)
        return self._referrers(name) if self.referrers_api else Reply(404, {})

    def _tags(self, name: str) -> Reply:
        names, start = sorted(self.tags), name.partition("last=")[2]
        rest = [one for one in names if one > start]
        shown = rest[:self.page] if self.page else rest
        more = {"link": f'</v2/team/cpu/tags/list?last={shown[-1]}>; rel="next"'} if (
            len(shown) < len(rest)) else {}
        return Reply(200, more, json.dumps({"tags": shown}).encode())

    def _manifest(self, method: str, name: str, body: bytes, kind: str) -> Reply:
        if method == "PUT":
            digest = digest_of(body)
            self.manifests[digest] = (body, kind)
            self.damaged.discard(digest)
            if not name.startswith("sha256:"):
                if self._spoiled(name):
                    return Reply(500, {})
                self.tags[name] = digest
                self.on_tag(name, digest)
            return Reply(201, {})
        if method == "DELETE":
            if not self.deletes:
                return Reply(405, {})
            gone = self.manifests.pop(name, None)
            self.tags = {tag: digest for tag, digest in self.tags.items() if digest != name}
            return Reply(202 if gone else 404, {})
        if name in self.damaged:
            return Reply(500, {})
        digest = self.tags.get(name, name)
        if (found := self.manifests.get(digest)) is None:
            return Reply(404, {})
        return Reply(200, {"content-type": found[1], "docker-content-digest": digest}, found[0])

    def _spoiled(self, name: str) -> bool:
        """Leave an empty file where the disk is full, as Debian's registry does, and say so."""
        self.damaged.discard(name)
        if self.spoils < 0:
            return False
        self.spoils -= 1
        if self.spoils >= 0:
            return False
        self.damaged.add(name)
        self.tags[name] = ""
        return True

    def _blob(self, method: str, name: str, body: bytes) -> Reply:
        if method == "POST":
            return Reply(202, {"location": "/v2/team/cpu/blobs/uploads/1"})
        if method == "PUT":
            self.blobs[digest_of(body)] = body
            self.damaged.discard(digest_of(body))
            return Reply(201, {})
        if name in self.damaged:
            return Reply(500, {})
        data = self.blobs.get(name)
        return Reply(404, {}) if data is None else Reply(200, {}, data)

    def _referrers(self, digest: str) -> Reply:
        listed = []
        for own, (data, _) in self.manifests.items():
            value = json.loads(data)
            if (value.get("subject") or {}).get("digest") == digest:
                listed.append({"digest": own, "artifactType": value["artifactType"],
                               "annotations": value.get("annotations", {})})
        return Reply(200, {}, json.dumps({"mediaType": INDEX_TYPE, "manifests": listed}).encode())


class MemoryClient(Client):
    """The client, whose requests a ``Memory`` answers."""

    def __init__(self, memory: Memory, before: Callable[[], None] = lambda: None,
                 after: Callable[[], None] = lambda: None) -> None:
        """Call ``before`` and ``after`` around every request."""
        super().__init__(parse(REFERENCE), pause_s=0)
        self._memory, self._before, self._after = memory, before, after

    def ask(self, method: str, url: str, *, body: bytes = b"", kind: str = "",
            mounting: str = "") -> Reply:
        """Answer from memory."""
        self._before()
        reply = self._memory.answer(method, url.split("/team/cpu/", 1)[1], body,
                                    kind.partition(",")[0])
        self._after()
        if reply.status == 500:
            raise self.given_up(RegistryFault(self.answered(reply), reply.status))
        return reply

    def download(self, url: str, limit: int) -> Iterator[bytes]:
        """Yield a blob in small pieces."""
        self._before()
        data = self._memory.blobs[url.rpartition("/")[2]]
        yield from (data[at:at + 1000] for at in range(0, len(data), 1000))


def repository(memory: Memory, **hooks: Callable[[], None]) -> Repository:
    """Return a repository in memory."""
    return Repository(MemoryClient(memory, **hooks))


def put_image(memory: Memory, name: str, labels: Mapping[str, str] | None = None,
              tags: Sequence[str] = ()) -> Manifest:
    """Put an image without layers; its name makes it different from others."""
    config = document({"name": name, "config": {"Labels": dict(labels or {})},
                       "rootfs": {"diff_ids": []}})
    assert isinstance(config.source, bytes)
    memory.blobs[config.digest] = config.source
    manifest = document({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "layers": [],
                         "config": {"mediaType": CONFIG_TYPE, "digest": config.digest,
                                    "size": config.size}})
    assert isinstance(manifest.source, bytes)
    memory.manifests[manifest.digest] = (manifest.source, MANIFEST_TYPE)
    memory.tags.update((tag, manifest.digest) for tag in tags)
    return Manifest(manifest.digest, MANIFEST_TYPE, manifest.source)


def make_tar(files: Mapping[str, bytes]) -> bytes:
    """Return a tar of these files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def a_layer(files: Mapping[str, bytes], compression: str = "zstd") -> ManifestLayer:
    """Return a layer of these files."""
    tar = make_tar(files)
    data = zstandard.ZstdCompressor().compress(tar) if compression == "zstd" else gzip.compress(
        tar, mtime=0)
    return ManifestLayer(digest_of(tar), Blob(digest_of(data), len(data), data), compression,
                         "test")


def put_layers(memory: Memory, layers: Sequence[ManifestLayer], labels: Mapping[str, str],
               tags: Sequence[str] = ()) -> Manifest:
    """Put an image with layers."""
    config = image_config({"Config": {"Labels": dict(labels)}, "Architecture": "amd64",
                           "Os": "linux"}, layers)
    manifest = image_manifest(config, layers)
    for blob in (config, *(layer.blob for layer in layers)):
        assert isinstance(blob.source, bytes)
        memory.blobs[blob.digest] = blob.source
    assert isinstance(manifest.source, bytes)
    memory.manifests[manifest.digest] = (manifest.source, MANIFEST_TYPE)
    memory.tags.update((tag, manifest.digest) for tag in tags)
    return Manifest(manifest.digest, MANIFEST_TYPE, manifest.source)


def of_image(record: Record, manifest: Manifest) -> Record:
    """Return the record as one of this image."""
    return record.model_copy(update={"image_id": manifest.config})


class KilledError(BaseException):
    """A run is killed: nothing of it goes on."""


@dataclass
class Run:
    """One run on the stage: what it does, and at which request it is killed, if at all."""

    name: str
    work: Callable[[Run], Any]
    dies_at: int = -1
    dies_after: bool = False  # the request still takes effect
    lost: bool = False  # it is the registry that is gone, and the run goes on to say so
    result: Any = None
    error: BaseException | None = None
    requests: int = 0
    waits_since: int = 0
    settling: bool = False
    done: bool = False
    go: threading.Event = field(default_factory=threading.Event)


def _end_of(run: Run) -> BaseException:
    return NetworkError("the registry cannot be used") if run.lost else KilledError()


class Stage:
    """Runs side by side, one request at a time, in the order that ``choices`` give.

    ``slowest`` bounds how long a run may be passed over, and a pause (``settle``) then lasts
    longer than anything that a run may have begun; None lets every delay happen.
    """

    def __init__(self, runs: Sequence[Run], choices: Iterator[int],
                 slowest: int | None = None) -> None:
        """Nothing runs yet."""
        self.runs, self.choices, self.slowest, self.step = runs, choices, slowest, 0
        self._back = threading.Semaphore(0)

    def play(self) -> None:
        """Run all to their ends."""
        threads = [threading.Thread(target=self._live, args=(run,), daemon=True)
                   for run in self.runs]
        for thread in threads:
            thread.start()
        for _ in threads:
            self._back.acquire()
        while ready := self._ready():
            run = self._chosen(ready)
            self.step += 1
            run.waits_since, run.settling = self.step, False
            run.go.set()
            self._back.acquire()
        for thread in threads:
            thread.join()

    def before(self, run: Run) -> None:
        """Wait for the run's turn; it may be killed here."""
        self._wait(run)
        if run.requests == run.dies_at and not run.dies_after:
            raise _end_of(run)
        run.requests += 1

    def after(self, run: Run) -> None:
        """Kill the run after the registry answered and before the run hears of it."""
        if run.requests - 1 == run.dies_at and run.dies_after:
            raise _end_of(run)

    def settle(self, run: Run) -> None:
        """Pause."""
        run.settling = True
        self._wait(run)

    def _wait(self, run: Run) -> None:
        run.go.clear()
        self._back.release()
        run.go.wait()

    def _live(self, run: Run) -> None:
        self._wait(run)
        try:
            run.result = run.work(run)
        except BaseException as error:  # noqa: BLE001 - what it raised is the test's to judge
            run.error = error
        run.done = True
        self._back.release()

    def _ready(self) -> list[Run]:
        alive = [run for run in self.runs if not run.done]
        if self.slowest is None:
            return alive
        pause = self.slowest * 40  # more steps than a run takes from its look to its entry
        awake = [run for run in alive if not run.settling or self.step - run.waits_since > pause]
        return awake or alive

    def _chosen(self, ready: Sequence[Run]) -> Run:
        if self.slowest is not None:
            late = [run for run in ready if self.step - run.waits_since >= self.slowest]
            if late:
                return min(late, key=lambda run: run.waits_since)
        return ready[next(self.choices, self.step) % len(ready)]
