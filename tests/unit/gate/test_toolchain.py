"""What Triton and FlashInfer compile with, in the base or in NVIDIA's wheels."""

from __future__ import annotations

import pytest
from gate_facts import NVIDIA, TOOLS, a_base, a_wheel

from builder.gate.toolchain import check_toolchain


def missing(tools: tuple[str, ...], members: tuple[str, ...]) -> list[str]:
    found = check_toolchain([a_wheel("nvidia-cuda-nvcc", members=members)], a_base(tools=tools))
    assert {one.code.value for one in found} <= {"toolchain-missing"}
    return [one.expected for one in found]


def test_a_whole_toolchain_is_fine_from_wheels_and_from_the_base() -> None:
    assert missing(TOOLS, NVIDIA) == []
    assert missing((*TOOLS, "nvcc", "ptxas", "cccl"), ()) == []


@pytest.mark.parametrize("tool", ["gcc", "libc headers", "Python.h", "ldconfig"])
def test_tritons_compiler_and_headers(tool: str) -> None:
    assert missing(tuple(one for one in TOOLS if one != tool), NVIDIA) == [tool]


def test_the_debian_package_is_named() -> None:
    (found,) = check_toolchain([a_wheel("x", members=NVIDIA)],
                               a_base(tools=tuple(one for one in TOOLS if one != "Python.h")))
    assert "python3-dev" in found.next_step


def test_parts_of_a_closure_are_asked_for_the_bases_tools_alone() -> None:
    found = check_toolchain([a_wheel("vllm")], a_base(tools=TOOLS[1:]), whole=False)
    assert [one.expected for one in found] == ["gcc"]


@pytest.mark.parametrize("part", ["nvcc", "ptxas", "cccl"])
def test_flashinfers_compiler(part: str) -> None:
    assert missing(TOOLS, tuple(path for path in NVIDIA if part not in path)) == [part]
