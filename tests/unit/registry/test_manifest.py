"""Configuration and manifest: the same bytes from any engine; the tag comes last and is checked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from registry_server import digest_of, serving

from builder import labels as label
from builder.errors import NetworkError
from builder.registry.client import ATTEMPTS, Client
from builder.registry.manifest import ManifestLayer, image_config, image_manifest, put_manifest
from builder.registry.reference import Reference
from builder.registry.upload import Blob

LAYER = ManifestLayer("sha256:" + "d" * 64, Blob(digest_of(b"layer"), 5, b"layer"), "zstd", "by")


def an_image(**config: Any) -> dict[str, Any]:
    return {"Id": "sha256:1", "Architecture": "arm64", "Os": "linux", "Variant": "v8",
            "Created": "2026-01-01T00:00:00Z", "DockerVersion": "26.1", "Config": {
                "Cmd": ["python3"], "Env": ["A=1"], "WorkingDir": "/root", "Image": "",
                "Hostname": "", "Volumes": None, "ExposedPorts": {"8000/tcp": {}},
                "Labels": {label.CELL: "cpu", label.PREFIX + "buildkit": "v0.13"}, **config}}


def read(blob: Blob) -> Any:
    assert isinstance(blob.source, bytes)
    assert blob.digest == digest_of(blob.source)
    assert blob.size == len(blob.source)
    return json.loads(blob.source)


def test_the_configuration_is_what_the_image_runs_with() -> None:
    config = read(image_config(an_image(), [LAYER]))
    assert config["config"] == {"Cmd": ["python3"], "Env": ["A=1"], "WorkingDir": "/root",
                                "ExposedPorts": {"8000/tcp": {}}, "Labels": {label.CELL: "cpu"}}
    assert config["rootfs"] == {"type": "layers", "diff_ids": [LAYER.diff_id]}
    assert (config["architecture"], config["os"]) == ("arm64", "linux")


def test_another_engine_gives_the_same_digest() -> None:
    other = an_image(Hostname="b", Labels={label.PREFIX + "buildkit": "v0.20", label.CELL: "cpu"})
    other |= {"Id": "sha256:2", "Created": "2027", "DockerVersion": "29", "Variant": ""}
    assert image_config(an_image(), [LAYER]).digest == image_config(other, [LAYER]).digest


def test_another_command_or_layer_gives_another_digest() -> None:
    first = image_config(an_image(), [LAYER]).digest
    assert image_config(an_image(Cmd=["sh"]), [LAYER]).digest != first
    assert image_config(an_image(), [LAYER, LAYER]).digest != first


def test_the_manifest_names_every_blob() -> None:
    config = image_config(an_image(), [LAYER])
    manifest = read(image_manifest(config, [LAYER]))
    assert manifest["config"]["digest"] == config.digest
    assert manifest["layers"] == [{"mediaType": "application/vnd.oci.image.layer.v1.tar+zstd",
                                   "digest": LAYER.blob.digest, "size": 5}]


def test_a_tag_is_put_once_and_read_back() -> None:
    manifest = image_manifest(image_config(an_image(), [LAYER]), [LAYER])
    with serving() as server:
        server.blobs["ns/cpu", LAYER.blob.digest] = b"layer"
        client = Client(Reference(server.host, "ns/cpu", "t"), pause_s=0.001)
        assert put_manifest(client, manifest, "t") is False
        assert server.manifests["ns/cpu", "t"] == manifest.source
        assert put_manifest(client, manifest, "t") is True
        assert server.count("PUT") == 1


def test_a_tag_that_the_registry_cannot_read_is_put_again() -> None:
    manifest = image_manifest(image_config(an_image(), [LAYER]), [LAYER])
    with serving(faults={"GET": [500] * ATTEMPTS}) as server:
        server.blobs["ns/cpu", LAYER.blob.digest] = b"layer"
        client = Client(Reference(server.host, "ns/cpu", "t"), pause_s=0.001)
        assert put_manifest(client, manifest, "t") is False
        assert server.manifests["ns/cpu", "t"] == manifest.source


def test_a_registry_without_the_blobs_gets_no_tag() -> None:
    manifest = image_manifest(image_config(an_image(), [LAYER]), [LAYER])
    with serving() as server:
        client = Client(Reference(server.host, "ns/cpu", "t"), pause_s=0.001)
        with pytest.raises(NetworkError, match="does not take the manifest: it answered 400"):
            put_manifest(client, manifest, "t")
        assert server.manifests == {}


def test_a_registry_that_keeps_other_bytes_is_named() -> None:
    manifest = image_manifest(image_config(an_image(), [LAYER]), [LAYER])
    with serving(other_manifest=b"{}") as server:
        server.blobs["ns/cpu", LAYER.blob.digest] = b"layer"
        client = Client(Reference(server.host, "ns/cpu", "t"), pause_s=0.001)
        with pytest.raises(NetworkError, match="another manifest") as caught:
            put_manifest(client, manifest, "t")
    assert digest_of(b"{}") in str(caught.value)
    assert manifest.digest in str(caught.value)
