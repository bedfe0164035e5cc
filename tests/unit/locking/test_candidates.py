"""Which file of a package is locked, and where it is said to be at home."""

from __future__ import annotations

from pathlib import Path

import pytest
from cells_for_tests import CPU, GPU, make_cell

from builder.errors import LockError
from builder.indexes.settings import Sources
from builder.locking.candidates import best_candidate, index_name, lock_wheels, target_tags
from builder.locking.uv import ResolvedPackage, WheelCandidate

USER = Sources("https://index.example/simple")
PYTORCH = {"pytorch-cpu": {"url": "https://torch.example/whl/cpu", "packages": ["torch"]}}


def chosen(*files: str) -> ResolvedPackage:
    return ResolvedPackage("pkg", "1.0", tuple(
        WheelCandidate(f"https://f.example/{file}", "0" * 64, 1) for file in files))


@pytest.mark.parametrize(("image", "files", "best"), [
    (CPU, ["pkg-1.0-py3-none-any.whl", "pkg-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"], 1),
    (CPU, ["pkg-1.0-cp311-cp311-manylinux2014_x86_64.whl",
           "pkg-1.0-cp311-cp311-manylinux_2_36_x86_64.whl"], 1),
    (CPU, ["pkg-1.0-cp311-cp311-manylinux_2_39_x86_64.whl", "pkg-1.0-py3-none-any.whl"], 1),
    (GPU, ["pkg-1.0-cp38-abi3-manylinux_2_35_aarch64.whl",
           "pkg-1.0-cp312-cp312-manylinux_2_39_aarch64.whl"], 1),
    (GPU, ["pkg-1.0-cp311-cp311-manylinux_2_28_aarch64.whl",
           "pkg-1.0-cp38-abi3-manylinux_2_31_aarch64.whl"], 1),
    (CPU, ["pkg-1.0-1-py3-none-any.whl", "pkg-1.0-2-py3-none-any.whl"], 1),
])
def test_the_best_file_for_the_target_is_taken(image: dict[str, object], files: list[str],
                                               best: int) -> None:
    tags = target_tags(make_cell(image))
    assert best_candidate(chosen(*files), tags).file == files[best]
    assert best_candidate(chosen(*reversed(files)), tags).file == files[best]


def test_a_package_without_a_fitting_file_is_named() -> None:
    with pytest.raises(LockError, match=r"pkg 1\.0 has no wheel"):
        best_candidate(chosen("pkg-1.0-cp311-cp311-win_amd64.whl"), target_tags(make_cell()))


def test_a_wheel_of_a_folder_is_at_home_in_the_index_named_for_its_package(tmp_path: Path) -> None:
    cell = make_cell({**CPU, "indexes": ["pytorch-cpu"]}, indexes=PYTORCH)
    user = Sources("https://index.example/simple", find_links=(str(tmp_path),))
    local = WheelCandidate((tmp_path / "torch-2.13.0+cpu-py3-none-any.whl").as_uri(), None, None)
    assert index_name("torch", local, cell, user) == "pytorch-cpu"
    assert index_name("other", local, cell, user) == "find-links"
    remote = WheelCandidate("https://f.example/o.whl", None, None)
    assert index_name("other", remote, cell, user) == "default"


def test_an_escaped_plus_in_an_address_is_part_of_the_file_name() -> None:
    assert WheelCandidate("https://f.example/a/torch-2.13.0%2Bcpu-py3-none-any.whl#x", None, None
                 ).file == "torch-2.13.0+cpu-py3-none-any.whl"


def test_hash_and_size_of_a_local_file_are_measured(tmp_path: Path) -> None:
    path = tmp_path / "pkg-1.0-py3-none-any.whl"
    path.write_bytes(b"abc")
    closure = (ResolvedPackage("pkg", "1.0", (WheelCandidate(path.as_uri(), None, None),)),)
    (wheel,) = lock_wheels(make_cell(), closure, USER, {})
    assert (wheel.size, wheel.sha256[:8]) == (3, "ba7816bf")
