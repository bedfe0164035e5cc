"""An image in a registry: labels, layers and versions."""

from __future__ import annotations

import json

import pytest

from builder.errors import NetworkError
from builder.promotion.contents import RemoteImage, read_remote
from builder.registry.repository import Manifest
from tests.unit.fake_repository import Memory, put_image, repository


def test_labels_and_versions_are_read() -> None:
    memory = Memory()
    image = put_image(memory, "x", {"org.sparkyard.version.vllm": "0.32.0", "other": "1"})
    read = read_remote(repository(memory), image)
    assert (read.versions, read.labels["other"]) == ({"vllm": "0.32.0"}, "1")
    assert (read.layers, read.diff_ids) == ((), ())


def test_what_is_not_an_image_is_refused() -> None:
    memory = Memory()
    there, image = repository(memory), put_image(memory, "x")
    memory.blobs.clear()
    with pytest.raises(NetworkError, match="not an image"):
        read_remote(there, image)
    there.put("list", b'{"manifests": []}', "t")
    found = there.manifest("list")
    assert found is not None
    with pytest.raises(NetworkError, match="not an image"):
        read_remote(there, found)


@pytest.mark.parametrize("size", ["abc", None, True, [1], "9" * 5000])
def test_a_size_that_is_none_is_no_crash(size: object) -> None:
    data = json.dumps({"layers": [{"digest": "sha256:0", "size": size}, 7]}).encode()
    image = RemoteImage(Manifest("sha256:1", "x", data), {})
    assert [layer.size for layer in image.layers] == [0]
