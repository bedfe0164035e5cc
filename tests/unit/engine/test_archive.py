"""Layers out of a saved image; anything else is one clear error."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from builder.engine.archive import extract_layer
from builder.errors import EngineError


def archive(folder: Path, **members: bytes) -> Path:
    path = folder / "saved.tar"
    with tarfile.open(path, "w") as opened:
        for name, data in members.items():
            info = tarfile.TarInfo(name.replace("_json", ".json"))
            info.size = len(data)
            opened.addfile(info, io.BytesIO(data))
    return path


def test_a_layer_is_taken_by_its_number(tmp_path: Path) -> None:
    saved = archive(tmp_path, a=b"first", b=b"second",
                    manifest_json=json.dumps([{"Layers": ["a", "b"]}]).encode())
    extract_layer(saved, 1, tmp_path / "layer")
    assert (tmp_path / "layer").read_bytes() == b"second"


@pytest.mark.parametrize("manifest", [b"", b"[]", b"{}", b'[{"Layers": 5}]', b'[{"Layers": []}]',
                                      b'[{"Layers": ["missing"]}]', b"[" * 100_000])
def test_a_damaged_archive_is_one_clear_error(tmp_path: Path, manifest: bytes) -> None:
    with pytest.raises(EngineError, match="not an image's archive"):
        extract_layer(archive(tmp_path, manifest_json=manifest), 0, tmp_path / "layer")


def test_a_file_that_is_no_archive_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "saved.tar").write_bytes(b"<html>" * 1000)
    with pytest.raises(EngineError, match="not an image's archive"):
        extract_layer(tmp_path / "saved.tar", 0, tmp_path / "layer")
