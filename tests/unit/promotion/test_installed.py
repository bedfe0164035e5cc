"""An image's layers, streamed: what is installed, and bytes that are not those of their digests."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from dataclasses import replace

import pytest

from builder.promotion import installed
from builder.promotion.contents import read_remote
from builder.promotion.installed import Installed, read_installed
from builder.registry.manifest import ManifestLayer
from builder.registry.upload import Blob
from tests.unit.fake_repository import Memory, a_layer, put_layers, repository

SITE = "opt/sparkyard/lib/python3.11/site-packages"
STATUS = (b"Package: bash\nStatus: install ok installed\nVersion: 5.2\n\n"
          b"Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n")


def dist(name: str, version: str) -> dict[str, bytes]:
    return {f"./{SITE}/{name}-{version}.dist-info/METADATA":
            f"Name: {name}\nVersion: {version}\n\nText".encode()}


def read(memory: Memory, *layers: ManifestLayer) -> Installed:
    image, there = put_layers(memory, layers, {}), repository(memory)
    return read_installed(there, read_remote(there, image), lambda _count: None)


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_wheels_and_packages_are_found(compression: str) -> None:
    found = read(Memory(), a_layer({"var/lib/dpkg/status": STATUS}, compression),
                 a_layer({**dist("Torch_Vision", "1"), "data": b"x" * 5000}, compression))
    assert found == Installed({"torch-vision": {"1"}}, {"bash": "5.2"}, [])


def test_an_upper_layer_removes_and_adds() -> None:
    gone = {f"{SITE}/.wh.a-1.dist-info": b"", f"{SITE}/sub/.wh..wh..opq": b""}
    found = read(Memory(), a_layer({**dist("a", "1"), **dist("b", "1")}),
                 a_layer({**gone, **dist("a", "2"), **dist("b", "2")}))
    assert found.wheels == {"a": {"2"}, "b": {"1", "2"}}


@pytest.mark.parametrize("place", [0, 40, -1])
@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_one_altered_byte_is_seen(place: int, compression: str) -> None:
    memory, layer = Memory(), a_layer(dist("a", "1"), compression)
    image, there = put_layers(memory, [layer], {}), repository(memory)
    data = bytearray(memory.blobs[layer.blob.digest])
    data[place] ^= 1
    memory.blobs[layer.blob.digest] = bytes(data)
    found = read_installed(there, read_remote(there, image), lambda _count: None)
    assert "the registry has other bytes" in found.damaged[0]


def test_a_layer_that_unpacks_to_something_else_is_seen() -> None:
    layer = replace(a_layer(dist("a", "1")), diff_id="sha256:" + "0" * 64)
    assert "the configuration says sha256:0000" in read(Memory(), layer).damaged[0]


def test_a_layer_that_is_not_compressed_as_it_says_is_seen() -> None:
    layer = replace(a_layer(dist("a", "1")), compression="gzip")
    assert "it unpacks to nothing (BadGzipFile)" in read(Memory(), layer).damaged[0]


def test_a_configuration_with_other_layers_is_seen() -> None:
    memory, layer = Memory(), a_layer(dist("a", "1"))
    image, there = put_layers(memory, [layer], {}), repository(memory)
    remote = read_remote(there, image)
    config = {**remote.config, "rootfs": {"diff_ids": []}}
    found = read_installed(there, replace(remote, config=config), lambda _count: None)
    assert found.damaged == ["the configuration names 0 layers, the manifest 1"]


def test_every_byte_is_counted() -> None:
    memory, layer, counted = Memory(), a_layer(dist("a", "1")), [0]
    image, there = put_layers(memory, [layer], {}), repository(memory)

    def step(count: int) -> None:
        counted[0] += count

    read_installed(there, read_remote(there, image), step)
    assert counted[0] == layer.blob.size
    assert hashlib.sha256(memory.blobs[layer.blob.digest]).hexdigest() in layer.blob.digest


@pytest.mark.parametrize(("limit", "said"), [("UNPACKED_BYTES", "TooMuchError"),
                                             ("TEXT_BYTES", "TooMuchError")])
def test_a_layer_that_would_unpack_without_end_is_given_up(
        monkeypatch: pytest.MonkeyPatch, limit: str, said: str) -> None:
    monkeypatch.setattr(installed, limit, 10)
    found = read(Memory(), a_layer({**dist("a", "1"), "zeros": bytes(100_000)}))
    assert said in found.damaged[0]


@pytest.mark.parametrize("headers", [{"GNU.sparse.size": "abc"}, {"GNU.sparse.map": "x,y"},
                                     {"GNU.sparse.realsize": "x"}])
def test_a_layer_with_strange_headers_is_damaged(headers: dict[str, str]) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        item = tarfile.TarInfo("x")
        item.pax_headers = headers
        archive.addfile(item)
    data = gzip.compress(made.getvalue())
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    layer = replace(a_layer({}, "gzip"), blob=Blob(digest, len(data), data))
    assert "it unpacks to nothing (ReadError)" in read(Memory(), layer).damaged[0]
