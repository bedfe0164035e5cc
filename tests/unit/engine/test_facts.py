"""What Docker answers, read into values: engines, images, manifests, buildx's fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builder.engine.facts import RemoteLayer, engine_info, read_fields, read_images, read_layers

SHA = "sha256:" + "a" * 64
VERSION = {"Server": {"Version": "27.1", "Os": "linux", "Arch": "arm64"},
           "Client": {"Version": "27.0"}}
IMAGE: dict[str, Any] = {"Id": SHA, "Size": 5, "Os": "linux", "Architecture": "arm64"}


def test_the_engine_is_told_with_its_machine() -> None:
    info = engine_info(VERSION, {"DockerRootDir": "/d", "ID": "x", "NCPU": 20, "MemTotal": 128,
                                 "KernelVersion": "6.11", "Architecture": "aarch64"}, "0.16",
                       {"Driver": "docker-container", "Buildkit": "v0.15",
                        "Platforms": "linux/arm64*, linux/amd64, linux/arm64"})
    assert (info.version, info.client, info.platform) == ("27.1", "27.0", "linux/arm64")
    assert info.platforms == ("linux/arm64", "linux/amd64")
    assert (info.buildkit, info.driver, info.data_root) == ("v0.15", "docker-container", Path("/d"))
    assert (info.cpus, info.memory, info.kernel, info.machine) == (20, 128, "6.11", "aarch64")


def test_the_buildkit_inside_an_engine_is_named_with_the_engine() -> None:
    bare = engine_info(VERSION, {"DockerRootDir": "/d"}, "0.16", {})
    assert bare.buildkit == "unknown (Docker 27.1)"
    assert (bare.id, bare.platforms, bare.cpus) == ("", (), 0)
    named = engine_info(VERSION, {"DockerRootDir": "/d"}, "0.16", {"BuildKit version": "v0.16"})
    assert named.buildkit == "v0.16 (Docker 27.1)"


@pytest.mark.parametrize("empty", [{}, {"Config": None, "RootFS": None, "RepoTags": None}])
def test_an_image_without_configuration_has_empty_facts(empty: dict[str, Any]) -> None:
    (found,) = read_images(json.dumps([{**IMAGE, **empty}]))
    assert (found.id, found.size, found.platform) == (SHA, 5, "linux/arm64")
    assert (found.labels, found.env, found.diff_ids, found.repo_tags) == ({}, {}, (), ())


def test_a_value_of_the_environment_may_hold_an_equals_sign() -> None:
    (found,) = read_images(json.dumps([{**IMAGE, "Config": {"Env": ["A=b=c", "EMPTY="]}}]))
    assert found.env == {"A": "b=c", "EMPTY": ""}


@pytest.mark.parametrize("odd", [
    {"RootFS": {"Layers": [[]]}}, {"RootFS": {"Layers": "sha256:1"}}, {"RepoTags": [1]},
    {"RepoDigests": [None]}, {"Config": {"Labels": {"a": 1}}}, {"Config": {"Entrypoint": [{}]}},
    {"Config": {"Env": "A=b"}}])
def test_what_is_no_text_where_a_text_belongs_is_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="texts"):
        read_images(json.dumps([{**IMAGE, **odd}]))


def test_an_image_whose_id_is_no_digest_is_refused() -> None:
    with pytest.raises(IndexError):
        read_images(json.dumps([{**IMAGE, "Id": "latest"}]))


def test_the_layers_of_a_manifest() -> None:
    text = json.dumps({"layers": [{"digest": SHA, "size": 7, "mediaType": "x"}]})
    assert read_layers(text) == (RemoteLayer(SHA, 7),)
    assert read_layers('{"manifests": []}') == ()


def test_of_a_field_that_comes_twice_the_last_counts() -> None:
    text = "Name: outer\nNodes:\nName:  node0\nEndpoint: unix:///run/x.sock\nno field\n"
    assert read_fields(text) == {"Name": "node0", "Endpoint": "unix:///run/x.sock"}
