"""A push without the engine: from an image's history to the registry, manifest last."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from registry_server import RegistryServer, digest_of, serving

from builder import direct_push
from builder import labels as label
from builder.direct_push import DirectPush, push_direct
from builder.engine.client import ImageFacts
from builder.errors import EngineError, NetworkError
from builder.publish import push_without_engine
from builder.registry.client import Client, Reply
from builder.registry.upload import Outcome
from builder.store.compressed import Compression
from builder.store.content_store import Store

BASE_TAR = b"base" * 1000
TARS = (b"one" * 5000, b"two" * 5000)
BASE_ID = "sha256:" + "b" * 64


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class StandIn:
    """An engine with one image on one base."""

    def __init__(self) -> None:
        self.saved = 0
        self.top = [f"ADD {sha256(tar)}.tar / # buildkit" for tar in TARS]
        self.end = ["ENV A=1", "EXPOSE map[8000/tcp:{}]", "WORKDIR /root", 'CMD ["python3"]']
        self.base: dict[str, Any] | None = {"RootFS": {"Layers": [digest_of(BASE_TAR)]}}
        self.image = {
            "Id": "sha256:image", "Architecture": "amd64", "Os": "linux",
            "Config": {"Env": ["A=1"], "Labels": {label.PREFIX + "base.id": BASE_ID,
                                                  label.CELL: "cpu"}},
            "RootFS": {"Layers": [digest_of(BASE_TAR), "sha256:packed", "sha256:anew"]}}

    def image_document(self, reference: str) -> dict[str, Any] | None:
        return self.base if reference == BASE_ID else self.image

    def history(self, reference: str) -> tuple[str, ...]:
        own = [] if reference == BASE_ID else [*self.top, *self.end]
        return (*reversed(own), "sparkyard base")

    def save(self, reference: str, archive: Path) -> None:
        assert reference == BASE_ID
        self.saved += 1
        with tarfile.open(archive, "w") as opened:
            for name, data in (("l.tar", BASE_TAR),
                               ("manifest.json", json.dumps([{"Layers": ["l.tar"]}]).encode())):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                opened.addfile(info, io.BytesIO(data))

    def remote_layers(self, _reference: str) -> None:
        return None


def a_store(folder: Path) -> Store:
    store = Store(folder)
    for number, tar in enumerate(TARS):
        with store.temporary("t") as path:
            path.write_bytes(tar)
            store.add_layer(str(number) * 64, path, sha256(tar), len(tar))
    return store


def push(server: RegistryServer, folder: Path, engine: Any, *tags: str,
         method: Compression = Compression.ZSTD) -> DirectPush:
    names = [f"{server.host}/ns/cpu:{tag}" for tag in tags or ("t",)]
    return push_direct(engine, a_store(folder), engine.image, names, ["ns/other"], method)


@pytest.mark.parametrize("method", Compression)
def test_the_manifest_names_the_stores_own_layers(tmp_path: Path, method: Compression) -> None:
    with serving() as server:
        done = push(server, tmp_path, StandIn(), "t", "cpu-next", method=method)
        manifest = json.loads(server.manifests["ns/cpu", "t"])
        assert digest_of(server.manifests["ns/cpu", "cpu-next"]) == done.digest
        config = json.loads(server.blobs["ns/cpu", manifest["config"]["digest"]])
        assert config["rootfs"]["diff_ids"] == [digest_of(tar) for tar in (BASE_TAR, *TARS)]
        assert all(layer["mediaType"].endswith(f"+{method.value}") for layer in manifest["layers"])
        assert all(("ns/cpu", layer["digest"]) in server.blobs for layer in manifest["layers"])
        assert server.requests[-1] == ("GET", "/v2/ns/cpu/manifests/cpu-next")
    assert (done.count_by(Outcome.SENT), done.sent) == (4, done.bytes_by(Outcome.SENT))


def test_a_second_push_moves_nothing_and_asks_the_engine_for_no_base(tmp_path: Path) -> None:
    engine = StandIn()
    with serving() as server:
        first = push(server, tmp_path, engine)
        second = push(server, tmp_path, engine)
    assert (second.sent, second.count_by(Outcome.PRESENT)) == (0, 4)
    assert second.digest == first.digest
    assert engine.saved == 1


def test_what_is_compressed_already_goes_the_largest_first(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_push, "SENDERS", 1)
    with serving() as server:
        first = push(server, tmp_path, StandIn())
        server.blobs.clear()
        server.requests.clear()
        push(server, tmp_path, StandIn())
        asked = dict.fromkeys(path.rpartition("/")[2] for method, path in server.requests
                              if method == "HEAD")
    sizes = {layer.digest: layer.size for layer in first.layers}
    sent = [sizes[digest] for digest in asked if digest in sizes]
    assert len(sent) == 3
    assert sent == sorted(sent, reverse=True)


def test_the_digest_is_known_before_anything_has_a_tag(tmp_path: Path) -> None:
    engine: Any = StandIn()
    with serving() as server:
        seen = list[tuple[str, int]]()
        done = push_direct(
            engine, a_store(tmp_path), engine.image, [f"{server.host}/ns/cpu:t"], [],
            Compression.ZSTD, lambda digest: seen.append((digest, len(server.manifests))))
    assert seen == [(done.digest, 0)]


def test_two_machines_push_the_same_digest(tmp_path: Path) -> None:
    other = StandIn()
    other.image["RootFS"]["Layers"][1:] = ["sha256:packed otherwise"]
    with serving() as server, serving() as elsewhere:
        assert push(server, tmp_path / "a", StandIn()).digest == push(
            elsewhere, tmp_path / "b", other).digest


def test_what_a_sibling_has_is_mounted(tmp_path: Path) -> None:
    with serving() as server:
        push(server, tmp_path, StandIn())
        server.blobs = {("ns/other", digest): data for (_, digest), data in server.blobs.items()}
        done = push(server, tmp_path, StandIn())
    assert (done.sent, done.count_by(Outcome.MOUNTED)) == (0, 4)


def test_a_registry_that_refuses_half_way_gets_no_tag(tmp_path: Path) -> None:
    with serving(faults={"PATCH": [0, 413, 413, 413, 413]}) as server:
        with pytest.raises(NetworkError, match="413"):
            push(server, tmp_path, StandIn())
        assert server.manifests == {}
        server.faults = {}
        assert push(server, tmp_path, StandIn()).digest
        assert list(server.manifests) == [("ns/cpu", "t")]


REQUESTS = 4 * 5 + 1 + 2 * 3  # of a first push: four blobs of one chunk, a sibling, two tags


class Killed(BaseException):
    """The program ends here, whatever it is doing."""


@pytest.mark.parametrize("number", range(1, REQUESTS + 1))
@pytest.mark.parametrize("how", ["killed", "refused"])
def test_a_push_that_ends_at_any_request_leaves_no_half_image(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, how: str) -> None:
    count, once = itertools.count(1), Client.once

    def ends(client: Client, *words: Any, **options: Any) -> Reply:
        now = next(count)
        if now >= number and how == "refused":
            raise NetworkError("the registry refuses this user")
        reply = once(client, *words, **options)
        if now >= number:
            raise Killed
        return reply

    with serving() as server:
        with monkeypatch.context() as ending:
            ending.setattr(Client, "once", ends)
            with pytest.raises((Killed, NetworkError)):
                push(server, tmp_path, StandIn(), "t", "cpu-next")
        for name, manifest in server.manifests.items():
            layers = json.loads(manifest)["layers"]
            assert all((name[0], layer["digest"]) in server.blobs for layer in layers)
        done = push(server, tmp_path, StandIn(), "t", "cpu-next")
        assert {digest_of(one) for one in server.manifests.values()} == {done.digest}
        assert set(server.manifests) == {("ns/cpu", "t"), ("ns/cpu", "cpu-next")}


def test_a_push_has_as_many_requests_as_the_test_above_ends(tmp_path: Path) -> None:
    with serving() as server:
        push(server, tmp_path, StandIn(), "t", "cpu-next")
        assert len(server.requests) == REQUESTS


def test_an_image_whose_tars_are_gone_is_refused(tmp_path: Path) -> None:
    engine = StandIn()
    engine.top.append(f"ADD {'9' * 64}.tar / # buildkit")
    with serving() as server:
        with pytest.raises(EngineError, match=r"1 of the tars .* are gone") as caught:
            push(server, tmp_path, engine)
        assert server.requests == []
    assert "build -- cpu" in caught.value.next_step
    assert "push -- cpu" in caught.value.next_step


@pytest.mark.parametrize(("change", "told"), [
    (lambda engine: engine.top.append("RUN rm -rf /opt"), "not all of its layers"),
    (lambda engine: engine.top.clear(), "not all of its layers"),
    (lambda engine: setattr(engine, "base", None), "base image is not on the engine"),
    (lambda engine: engine.image["Config"].pop("Labels"), "base image is not on the engine"),
    (lambda engine: engine.image["RootFS"]["Layers"].pop(0), "does not stand on the base")])
def test_an_image_that_is_not_of_the_stores_tars_is_refused(
        tmp_path: Path, change: Any, told: str) -> None:
    engine = StandIn()
    change(engine)
    with serving() as server, pytest.raises(EngineError, match=told):
        push(server, tmp_path, engine)


def test_the_first_push_says_what_its_users_pull(tmp_path: Path) -> None:
    engine: Any = StandIn()
    with serving() as server:
        tag = f"{server.host}/ns/cpu:cpu-1.0-abcdefabcdef"
        image = ImageFacts(
            id="sha256:image", diff_ids=(), repo_tags=(tag,), repo_digests=(), size=1,
            labels={label.STATUS: "locked", label.INPUTS: "sha256:abcdefabcdef0"},
            platform="linux/amd64", created="", env={})
        pushed, done, candidate = push_without_engine(
            engine, a_store(tmp_path), image, f"{server.host}/ns/cpu:cpu", records=None,
            siblings=(), compression=Compression.ZSTD)
    assert (pushed.reference, pushed.digest, candidate) == (tag, done.digest, "")
    assert pushed.to_pull == pushed.size == sum(layer.size for layer in done.layers)
