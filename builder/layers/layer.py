"""What an image is made of: layers of a few kinds, from the lowest to the topmost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from builder.locking.lock import LockedWheel
from builder.store.content_store import StoredLayer


class LayerKind(StrEnum):
    """What a layer of the store holds; its facts say so under ``kind``."""

    WHEEL = "wheel"  # the files of one wheel
    METADATA = "metadata"  # the .dist-info of one wheel, which goes into the environment layer
    SHARED = "shared"  # the files of the small wheels
    OVERLAY = "overlay"  # what patches change in a wheel
    FOLDERS = "folders"  # the folders that any user may write to; the same layer in every image
    ENVIRONMENT = "environment"  # every .dist-info, pyvenv.cfg and the links to Python


@dataclass(frozen=True)
class WheelLayers:
    """One wheel's two tars in the store."""

    wheel: LockedWheel
    files: StoredLayer
    metadata: StoredLayer


@dataclass(frozen=True)
class ImageLayers:
    """The layers of an image, by kind; iterating goes from the lowest to the topmost."""

    folders: StoredLayer
    wheels: tuple[StoredLayer, ...]
    shared: StoredLayer | None
    overlays: tuple[StoredLayer, ...]
    environment: StoredLayer

    def __iter__(self) -> Iterator[StoredLayer]:
        yield self.folders
        yield from self.wheels
        if self.shared:
            yield self.shared
        yield from self.overlays
        yield self.environment
