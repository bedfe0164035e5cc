"""The layers of an image, from the lowest to the topmost."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.layers.layer import ImageLayers, LayerKind, kind_of
from builder.store.content_store import StoredLayer


def layer(kind: str) -> StoredLayer:
    return StoredLayer(kind, 1, Path(kind), {"kind": kind})


def test_the_environment_is_on_top_and_overlays_below_it() -> None:
    image = ImageLayers(layer("folders"), (layer("wheel"),), layer("shared"), (layer("overlay"),),
                        layer("environment"))
    assert [kind_of(item) for item in image] == [
        LayerKind.FOLDERS, LayerKind.WHEEL, LayerKind.SHARED, LayerKind.OVERLAY,
        LayerKind.ENVIRONMENT]


def test_an_image_of_large_wheels_alone_has_no_shared_layer() -> None:
    image = ImageLayers(layer("folders"), (layer("wheel"),), None, (), layer("environment"))
    assert [item.digest for item in image] == ["folders", "wheel", "environment"]


def test_a_kind_that_nobody_makes_is_refused() -> None:
    with pytest.raises(ValueError, match="odd"):
        kind_of(layer("odd"))
