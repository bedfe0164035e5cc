"""An image in a registry: labels, layers and versions."""

from __future__ import annotations

import pytest

from builder.errors import NetworkError
from builder.promotion.contents import read_remote
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
