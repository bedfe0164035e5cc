"""A patched wheel as a layer over the published one, and as a file: the same, byte for byte."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import pytest
from patch_wheels import diff
from patched_layers import (
    CHANGE,
    DELETE,
    MINOR,
    NAME,
    image,
    patched,
    record_is_true,
)

from builder.errors import PatchError
from builder.patches.revision import PROVENANCE, as_patched, patched_version

TAG = f"cpython-{MINOR.replace('.', '')}"


def test_a_change_is_a_small_layer_over_the_wheels_own(tmp_path: Path) -> None:
    published = patched(tmp_path / "0", diff("vllm/none.py", None, "X = 1\n"))[1]
    result, layers = patched(tmp_path / "1", CHANGE)
    assert [layer.facts["kind"] for layer in layers] == [
        "folders", "wheel", "overlay", "environment"]
    assert layers[1].digest == published[1].digest
    assert layers[2].size < 20_000
    assert result.versions == {"vllm": "1.0+sy.7"}
    files = image(layers)
    assert files["vllm/__init__.py"] == b"WORD = 'new'\n"
    assert files["vllm/added.py"] == b"ADDED = 1\n"
    assert record_is_true(files, f"{NAME}.dist-info")


def test_one_distribution_with_the_patched_version_and_its_provenance(tmp_path: Path) -> None:
    files = image(patched(tmp_path, CHANGE)[1])
    infos = {name.split("/")[0] for name in files if ".dist-info/" in name}
    assert infos == {f"{NAME}.dist-info"}
    metadata = files[f"{NAME}.dist-info/METADATA"].decode()
    assert "\nVersion: 1.0+sy.7\n" in metadata
    assert metadata.endswith("\nVersion: in the text\n")
    origin = json.loads(files[f"{NAME}.dist-info/{PROVENANCE}"])
    assert origin["wheel"]["file"] == "vllm-1.0-py3-none-any.whl"
    assert origin["patches"][0]["sha256"] == hashlib.sha256(CHANGE).hexdigest()


def test_bytecode_is_of_the_patched_source(tmp_path: Path) -> None:
    files = image(patched(tmp_path, CHANGE)[1])
    for name in ("__init__", "added"):
        data = files[f"vllm/__pycache__/{name}.{TAG}.pyc"]
        assert struct.unpack("<I", data[4:8])[0] == 0b11
    assert b"new" in files[f"vllm/__pycache__/__init__.{TAG}.pyc"]


def test_two_runs_give_the_same_layers(tmp_path: Path) -> None:
    for data in (CHANGE, DELETE):
        first, second = (patched(tmp_path / name, data)[1] for name in ("1", "2"))
        assert [layer.digest for layer in first] == [layer.digest for layer in second]


def test_the_second_run_finds_the_overlay_in_the_store(tmp_path: Path) -> None:
    first = patched(tmp_path, CHANGE)[1]
    again = patched(tmp_path, CHANGE)[1]
    assert [layer.path for layer in first] == [layer.path for layer in again]
    other = patched(tmp_path, CHANGE.replace(b"'new'", b"'newer'"))[1]
    assert other[2].digest != first[2].digest


def test_a_module_that_is_no_python_any_more_stops_the_build(tmp_path: Path) -> None:
    with pytest.raises(PatchError, match="not valid Python"):
        patched(tmp_path, diff("vllm/__init__.py", "WORD = 'old'\n", "WORD = (\n"))


@pytest.mark.parametrize(("version", "tags", "expected"), [
    ("0.20.2", ["38909"], "0.20.2+sy.38909"),
    ("0.20.2", ["38909", "39612"], "0.20.2+sy.38909.39612"),
    ("2.13.0+cpu", ["g1A2b"], "2.13.0+cpu.sy.g1a2b"),
    ("1.0", ["my_fix.patch"], "1.0+sy.my.fix.patch"),
    ("1.0", ["00123456"], "1.0+sy.123456"),  # a commit: as every reader of versions writes it
])
def test_patched_versions(version: str, tags: list[str], expected: str) -> None:
    assert patched_version(version, tags) == expected


def test_smoke_compares_with_the_patched_version(tmp_path: Path) -> None:
    result, _ = patched(tmp_path, CHANGE)
    assert as_patched(result.wheels.lock, result.labels).wheels[0].version == "1.0+sy.7"
    assert as_patched(result.wheels.lock, {"other": "label"}) == result.wheels.lock
    for labels in ({"org.sparkyard.patched.vllm": "2.0+sy.7"},
                   {"org.sparkyard.patched.torch": "1.0+sy.7"}):
        with pytest.raises(PatchError, match="label says"):
            as_patched(result.wheels.lock, labels)
