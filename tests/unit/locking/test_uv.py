"""What uv is told and how its answer is read."""

from __future__ import annotations

import tomli
from cells_for_tests import CPU, GPU, make_cell, make_lock, make_wheel

from builder.locking.uv import (
    ResolutionRequest,
    overrides,
    platform,
    preferences,
    project,
    read_pylock,
)

INDEXES = {"up": {"url": "https://up.example/{vllm}/whl", "packages": ["vllm", "torch"]}}


def test_the_platform_follows_the_base_s_glibc() -> None:
    assert platform(make_cell(GPU)) == "aarch64-manylinux_2_39"
    assert platform(make_cell(CPU)) == "x86_64-manylinux_2_36"


def test_bound_packages_are_direct_wishes_and_their_index_is_asked_for_nothing_else() -> None:
    cell = make_cell({**GPU, "vllm": "0.19.0", "indexes": ["up"]}, indexes=INDEXES)
    request = ResolutionRequest(cell, cell.indexes, {"torch": "up", "vllm": "up"})
    written = tomli.loads(project(request))
    assert written["project"]["dependencies"] == ["vllm==0.19.0", "pip", "torch", "vllm"]
    assert written["tool"]["uv"]["index"] == [
        {"name": "up", "url": "https://up.example/0.19.0/whl", "explicit": True}]
    assert written["tool"]["uv"]["sources"] == {"torch": {"index": "up"}, "vllm": {"index": "up"}}


def test_what_is_left_out_gets_a_condition_that_never_holds() -> None:
    cell = make_cell({**CPU, "leave_out": ["torchvision"],
                      "transformers": {"spec": "5.5.4", "override": True}})
    assert overrides(cell) == ["transformers==5.5.4", 'torchvision ; sys_platform == "never"']


def test_a_lock_becomes_uv_s_preferences() -> None:
    cell = make_cell()
    written = read_pylock(preferences(make_lock(cell, make_wheel("torch", "2.13.0+cpu"))))
    assert [(package.name, package.version) for package in written] == [("torch", "2.13.0+cpu")]


def test_packages_and_files_are_read_from_a_pylock() -> None:
    (package,) = read_pylock(
        '[[packages]]\nname = "A_b"\nversion = "1"\nwheels = [{url = "https://f.example/'
        'A_b-1-py3-none-any.whl", size = 5, hashes = {sha256 = "00"}}]\n')
    assert package.name == "a-b"
    (wheel,) = package.candidates
    assert (wheel.file, wheel.size, wheel.sha256) == ("A_b-1-py3-none-any.whl", 5, "00")
