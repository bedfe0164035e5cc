"""The layers of an image, from the lowest to the topmost."""

from __future__ import annotations

from pathlib import Path

from builder.layers.layer import ImageLayers
from builder.store.content_store import StoredLayer


def layer(kind: str) -> StoredLayer:
    return StoredLayer(kind, 1, Path(kind), {"kind": kind})


def test_the_environment_is_on_top_and_overlays_below_it() -> None:
    image = ImageLayers(layer("folders"), (layer("wheel"),), layer("shared"), (layer("overlay"),),
                        layer("environment"))
    assert [item.digest for item in image] == [
        "folders", "wheel", "shared", "overlay", "environment"]


def test_an_image_of_large_wheels_alone_has_no_shared_layer() -> None:
    image = ImageLayers(layer("folders"), (layer("wheel"),), None, (), layer("environment"))
    assert [item.digest for item in image] == ["folders", "wheel", "environment"]
