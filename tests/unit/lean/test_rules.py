"""Which files a lean image leaves out: by data, with reasons, and never what a run may need."""

from __future__ import annotations

import pytest

from builder.lean.rules import NEVER, removal, rules, untouched, version

GPU = "sm_121"


@pytest.mark.parametrize(("path", "rule"), [
    ("flashinfer_cubin/cubins/fmha/gen.cubin", NEVER),
    ("vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so", NEVER),
    ("numpy/_core/tests/test_array.py", "test suites"),
    ("xgrammar/lib/libxgrammar.a", "static archives"),
])
def test_what_no_run_needs_is_left_out(path: str, rule: str) -> None:
    taken = removal(path, GPU)
    assert taken is not None
    assert taken.rule == rule
    assert taken.reason


@pytest.mark.parametrize("path", [
    "vllm/_C.abi3.so",
    "vllm/third_party/deep_gemm/__init__.py",  # its module may be imported, its code never runs
    "flashinfer_cubin/__init__.py",
    "torch/testing/_internal/common_utils.py",  # torch imports it itself
    "nvidia/cu13/lib/libcudart_static.a",  # nvcc links it by default
    "nvidia/cu13/lib/libcudadevrt.a",
    "nvidia/cu13/include/cuda.h",  # compilers at run time read headers
    "nvidia/nvshmem/lib/libnvshmem_device.a",
    "contest/test_data.json",
])
def test_what_a_run_may_need_stays(path: str) -> None:
    assert removal(path, GPU) is None


def test_another_gpu_keeps_its_own_code() -> None:
    assert removal("vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so", "sm_90") is None


def test_every_rule_has_its_reason_and_source() -> None:
    for entry in (*rules().leave_out, *rules().untouched):
        assert len(entry.reason) > 20
        assert entry.link.startswith("https://")
    assert untouched("nvidia/nvshmem/lib/libnvshmem.so.3")


def test_the_version_names_rules_and_code() -> None:
    assert len(version()) == 64
