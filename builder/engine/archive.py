"""An image's layers out of what ``docker save`` wrote."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from builder.errors import EngineError
from builder.files import disk_errors
from builder.limits import SETTINGS_BYTES
from builder.tarball import BoundedInfo

_CHUNK_BYTES = 1 << 20


def extract_layer(archive: Path, number: int, target: Path) -> None:
    """Write layer ``number`` (from 0, the lowest) of the archive's one image to ``target``.

    Raises EngineError where the archive is not one of an image, or has no such layer.
    """
    try:
        with tarfile.open(archive, "r:", tarinfo=BoundedInfo) as opened, \
                disk_errors(target, "while taking a layer"):
            name = _layers(opened)[number]
            source = opened.extractfile(name)
            if source is None:
                raise KeyError(name)
            with source, target.open("wb") as stream:
                while chunk := source.read(_CHUNK_BYTES):
                    stream.write(chunk)
    except (tarfile.TarError, ValueError, LookupError, TypeError, RecursionError,
            OverflowError) as error:
        raise EngineError("what the engine saved is not an image's archive", where=str(archive),
                          next_step="which version of Docker is it? `docker save` is asked for "
                          "the base image") from error


def _layers(opened: tarfile.TarFile) -> list[str]:
    source = opened.extractfile("manifest.json")
    if source is None:
        raise KeyError("manifest.json")
    with source:
        layers: list[str] = json.loads(source.read(SETTINGS_BYTES))[0]["Layers"]
    return layers
