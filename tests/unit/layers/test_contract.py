"""The contract of an image: its folders, its variables, and the label of its NCCL."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hand_made_wheels import make_wheel

from builder import labels as label
from builder.fetch.wheels import FetchedWheels
from builder.layers import contract
from builder.layers.contract import nccl_labels
from builder.locking.lock import Lock, LockedWheel

MEMBER = "nvidia/nccl/lib/libnccl.so.2"


def fetched(*paths: Path) -> FetchedWheels:
    wheels = {LockedWheel(name=path.name.split("-")[0], version="1.0", file=path.name,
                          sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
                          size=path.stat().st_size, index="default"): path for path in paths}
    return FetchedWheels(Lock(cell="c", intent="i", python="3.11", platform="p",
                              wheels=tuple(wheels)), wheels)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_label_is_the_digest_of_the_library_itself(tmp_path: Path) -> None:
    wheels = fetched(make_wheel(tmp_path, "nvidia_nccl", {MEMBER: b"the library"}),
                     make_wheel(tmp_path, "other", {"other/__init__.py": b""}))
    assert nccl_labels(wheels) == {label.NCCL: sha256(b"the library")}


@pytest.mark.parametrize("member", ["a/libnccl-net.so", "a/libnccl.so.py/x", "a/libncclx.so.2"])
def test_other_files_are_not_nccl(tmp_path: Path, member: str) -> None:
    assert nccl_labels(fetched(make_wheel(tmp_path, "other", {member: b"x"}))) == {}


def test_two_different_libraries_are_both_named(tmp_path: Path) -> None:
    wheels = fetched(make_wheel(tmp_path, "one", {MEMBER: b"one"}),
                     make_wheel(tmp_path, "two", {"two/libnccl.so": b"two"}))
    assert nccl_labels(wheels)[label.NCCL].split(",") == sorted([sha256(b"one"), sha256(b"two")])


def test_every_cache_lies_below_a_folder_that_any_user_may_write_to() -> None:
    places = [value for value in contract.ENVIRONMENT.values() if value.startswith("/")]
    assert len(places) >= 8
    assert all(value.startswith(("/tmp", "/cache/")) for value in places)
    assert {"/workspace", "/cache/huggingface", "/cache/runtime"} <= set(contract.WRITABLE)
