"""Compilers that do not know the GPU, and sources that lack it; the neighbours are silent."""

from __future__ import annotations

import pytest
from gate_facts import TOOLS, a_base, a_wheel

from builder.gate.jit import check_jit, knows

OLD, NEW = ("100a", "120", "120a"), ("120a", "121", "121a", "121f")
TRITON = "triton/backends/nvidia/bin/ptxas"
NVCC = "nvidia/cu13/bin/ptxas"
IMPLS = "vllm/third_party/deep_gemm/include/deep_gemm/impls/"


def findings(*targets: tuple[str, tuple[str, ...]], gpu: str = "sm_121",
             tools: tuple[str, ...] = TOOLS) -> list[tuple[str, str]]:
    wheels = [a_wheel(f"w{number}", targets=(one,)) for number, one in enumerate(targets)]
    return [(found.file, found.severity.value)
            for found in check_jit(wheels, gpu, a_base(tools=tools))]


def test_what_a_compiler_knows() -> None:
    assert knows(NEW, "sm_121")
    assert not knows(OLD, "sm_121")


def test_tritons_ptxas_of_cuda_12_8_is_an_error() -> None:
    assert findings((TRITON, OLD)) == [(TRITON, "error")]
    assert findings((TRITON, OLD), gpu="sm_120") == []


def test_a_second_ptxas_for_blackwell_is_enough() -> None:
    both = a_wheel("triton", targets=((TRITON, OLD), (f"{TRITON}-blackwell", NEW)))
    assert check_jit([both], "sm_121") == ()


@pytest.mark.parametrize("tools", [TOOLS, (*TOOLS, "ptxas")])
def test_nvccs_ptxas_stands_in_for_tritons(tools: tuple[str, ...]) -> None:
    nvcc = [] if "ptxas" in tools else [(NVCC, NEW)]
    assert findings((TRITON, OLD), *nvcc, tools=tools) == [(TRITON, "note")]


@pytest.mark.parametrize(("path", "severity"), [
    (NVCC, "error"), ("nvidia/cu12/nvvm/bin/cicc", "error"),
    ("nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "warning"),
    ("nvidia_cutlass_dsl/python_packages/cutlass/cute/nvgpu/warp/mma.py", "warning")])
def test_each_compiler(path: str, severity: str) -> None:
    assert findings((path, OLD)) == [(path, severity)]
    assert findings((path, NEW)) == []


def test_a_copy_of_cutlass_that_nothing_imports_is_not_judged() -> None:
    assert findings(("flashinfer/data/cutlass/python/CuTeDSL/cutlass/cute/nvgpu/warp/mma.py",
                     OLD)) == []


@pytest.mark.parametrize(("version", "files", "fires"), [
    ("0.27.0", ("sm90_gemm.cuh", "sm100_gemm.cuh"), True),
    ("0.32.0", ("sm100_gemm.cuh", "sm120_gemm.cuh"), False),
    ("0.20.2", ("sm90_gemm.cuh", "sm100_gemm.cuh"), False),  # never calls it on 12.x
    ("0.27.0", (), False)])  # built without DeepGEMM
def test_deep_gemm_has_sources_for_12_x_where_vllm_uses_it(version: str, files: tuple[str, ...], *,
                                                            fires: bool) -> None:
    vllm = a_wheel("vllm", version, members=tuple(IMPLS + file for file in files))
    assert [one.code.value for one in check_jit([vllm], "sm_121")] == (
        ["kernel-sources-missing"] if fires else [])
    assert check_jit([vllm], "sm_90") == ()
