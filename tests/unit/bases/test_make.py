"""The slim base: the Python that the matrix names, and an id that follows from no engine."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from builder.bases import make
from builder.bases.make import (
    BaseImage,
    base_labels,
    make_image,
    other_sources,
    resolve_slim,
    upstream_version,
    write_archive,
)
from builder.bases.state import SlimRecipe
from builder.debian.fetch import Answer, Fetched
from builder.errors import LockError, NetworkError
from builder.matrix.models import Base
from builder.tarball import Tar
from tests.unit.locking.test_base_lock import make_base, make_deb


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


BASE = Base(flavour="slim", source="x", python="3.13", glibc="2.41", platforms=("linux/arm64",))
RECIPE = SlimRecipe(suite="trixie", packages=("gcc",), env={})


def test_the_python_that_is_locked_is_the_one_that_the_matrix_names(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian has several: python3.13 is what runs here, python3.11 would be another."""
    debs = (make_deb("libc6", "2.41-12"), make_deb("python3.11", "3.11.2-6"),
            make_deb("python3.13", "3.13.5-2"))
    monkeypatch.setattr(make, "resolve_debs", lambda *_words, where: debs)
    wanted = resolve_slim(RECIPE, BASE, ("slim", "linux/arm64"))
    assert (wanted.python, wanted.glibc, wanted.recipe) == ("3.13.5", "2.41", RECIPE.digest)
    assert wanted.epoch % 86_400 == 0


def test_a_base_without_the_python_of_the_matrix_is_refused_by_name(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "resolve_debs", lambda *_words, where: (make_deb("python3.11"),))
    with pytest.raises(LockError, match=r"no package python3\.13") as caught:
        resolve_slim(RECIPE, BASE, ("slim", "linux/arm64"))
    assert caught.value.where == "images/base/slim.toml"


@pytest.mark.parametrize(("version", "upstream"), [
    ("2.36-9+deb12u14", "2.36"), ("1:2.38.1-5+b1", "2.38.1"), ("3.11.2-6", "3.11.2")])
def test_epoch_and_revision_are_no_part_of_the_upstream_version(version: str, upstream: str
                                                                ) -> None:
    assert upstream_version([make_deb("x", version)], "x", "file") == upstream


def test_only_an_unlocked_base_is_labelled_so() -> None:
    assert "unlocked" not in base_labels(make_base())
    assert base_labels(make_base(unlocked="gone"))["unlocked"] == "gone"


def test_a_lock_has_the_end_of_its_day_as_the_time_of_a_snapshot(
        monkeypatch: pytest.MonkeyPatch) -> None:
    debs = (make_deb("libc6", "2.41-12"), make_deb("python3.13", "3.13.5-2"))
    monkeypatch.setattr(make, "resolve_debs", lambda *_words, where: debs)
    monkeypatch.setattr("time.time", lambda: 1_795_260_000.0)
    assert resolve_slim(RECIPE, BASE, ("slim", "linux/arm64")).snapshot == "20261121T235959Z"


GONE = make_deb("gcc", "12")


def test_packages_of_the_mirror_alone_need_no_words() -> None:
    fetched = Fetched((), (Answer("your mirror", (GONE,)),))
    assert other_sources(make_base(), fetched) == ""
    assert other_sources(make_base(), Fetched(())) == ""


def test_packages_of_another_source_are_named_with_the_reason_and_what_to_do() -> None:
    fetched = Fetched((), (
        Answer("your mirror", (), (GONE,)),
        Answer("the snapshot service", (), (), NetworkError("no answer")),
        Answer("the registry", (GONE,))))
    said = other_sources(make_base(), fetched)
    assert "your mirror no longer has gcc 12" in said
    assert "1 from the registry" in said
    assert "./nox -s base -- slim --upgrade --platform linux/arm64" in said
    dead = Fetched((), (Answer("your mirror", (), (), NetworkError("no answer")),
                        Answer("the registry", (GONE,))))
    assert "your mirror could not be used (no answer)" in other_sources(make_base(), dead)
