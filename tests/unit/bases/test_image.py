"""The image of a base: its id follows from its bytes and what is declared, and from no engine."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

from builder.bases.image import BaseImage, make_image, write_archive
from builder.tarball import Tar


def image(tmp_path: Path, **env: str) -> BaseImage:
    rootfs = tmp_path / "rootfs.tar"
    rootfs.write_bytes(b"x" * 1024)
    tar = Tar(rootfs, hashlib.sha256(rootfs.read_bytes()).hexdigest(), 1024)
    return make_image(tar, "arm64", 0, {"PATH": "/bin", **env}, {"base": "slim"})


def test_same_inputs_same_id(tmp_path: Path) -> None:
    assert image(tmp_path).id == image(tmp_path).id
    assert image(tmp_path).id != image(tmp_path, CUDA_HOME="/x").id


def test_the_configuration_declares_platform_environment_and_labels(tmp_path: Path) -> None:
    config = json.loads(image(tmp_path, CUDA_HOME="/x").config)
    assert (config["os"], config["architecture"]) == ("linux", "arm64")
    assert config["created"] == "1970-01-01T00:00:00Z"
    assert "CUDA_HOME=/x" in config["config"]["Env"]
    assert config["config"]["Labels"] == {"org.sparkyard.base": "slim"}
    assert config["rootfs"]["diff_ids"] == list(image(tmp_path).diff_ids)


def test_the_archive_is_what_docker_loads(tmp_path: Path) -> None:
    made = image(tmp_path)
    write_archive(made, "r/base-slim:x", tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        [entry] = json.load(manifest)
        assert entry["RepoTags"] == ["r/base-slim:x"]
        config, layer = archive.extractfile(entry["Config"]), archive.extractfile(
            entry["Layers"][0])
        assert config is not None
        assert layer is not None
        assert "sha256:" + hashlib.sha256(config.read()).hexdigest() == made.id
        assert "sha256:" + hashlib.sha256(layer.read()).hexdigest() == made.diff_ids[0]
