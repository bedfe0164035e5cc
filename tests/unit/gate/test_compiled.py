"""The gate on compiled code: each check fires on what it is for, and is silent on what is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_files import library

from builder.binaries.gpu_code import read_gpu_code
from builder.gate.compiled import CompiledFile, check_compiled, instructions
from builder.locking.findings import FindingCode

WANTED = ("QMMA", "OMMA")


def codes(tmp_path: Path, *names: str, extra: bytes = b"", wanted: tuple[str, ...] = WANTED
          ) -> list[FindingCode]:
    file = CompiledFile("vllm/_C.so", library(tmp_path, names, extra=extra), wanted)
    return [finding.code for finding in check_compiled([file], "sm_121", "vllm.whl")]


@pytest.mark.parametrize("name", ["good-120f", "good-121a"])
def test_code_for_the_family_or_for_the_gpu_is_right(tmp_path: Path, name: str) -> None:
    assert codes(tmp_path, name) == []
    found = read_gpu_code(library(tmp_path, [name]))
    assert instructions(found, "sm_121") == {"QMMA": 1, "OMMA": 1}


def test_a_stub_is_refused_although_its_architecture_is_right(tmp_path: Path) -> None:
    assert codes(tmp_path, "stub-121a", wanted=("QMMA",)) == [
        FindingCode.EMPTY_KERNELS, FindingCode.NO_INSTRUCTION]
    file = CompiledFile("vllm/_C.so", library(tmp_path, ["stub-121a"]), ("QMMA",))
    empty, missing = check_compiled([file], "sm_121")
    assert "1 kernel can only trap, the first: fp8" in empty.what
    assert '"This kernel only supports sm120."' in empty.what
    assert "no kernel uses QMMA" in missing.what


def test_one_stub_beside_good_kernels_is_found(tmp_path: Path) -> None:
    assert codes(tmp_path, "good-120f", "stub-121a") == [FindingCode.EMPTY_KERNELS]


def test_a_kernel_that_traps_without_a_word_is_found(tmp_path: Path) -> None:
    assert codes(tmp_path, "trap-121a", wanted=("QMMA",)) == [FindingCode.EMPTY_KERNELS]


def test_code_for_sm_120a_is_refused(tmp_path: Path) -> None:
    assert codes(tmp_path, "exact-120a") == [FindingCode.ARCH_EXACT_ONLY]
    assert codes(tmp_path, "good-120f", "exact-120a") == [FindingCode.ARCH_EXACT_PART]


def test_no_gpu_code_is_refused_where_some_is_expected(tmp_path: Path) -> None:
    assert codes(tmp_path) == [FindingCode.NO_GPU_CODE]
    host = CompiledFile("x.so", library(tmp_path, []), has_gpu_code=False)
    assert check_compiled([host], "sm_121") == ()


@pytest.mark.parametrize("path", [
    b"/src/vllm/csrc/ops.h", b"/build/CMakeFiles/x.o", b"/home/me/vllm/csrc/a.cu",
    b"/opt/torch/torch/include/ATen/ATen.h", b"/root/.cache/ccache"])
def test_a_path_of_the_build_is_found(tmp_path: Path, path: bytes) -> None:
    assert codes(tmp_path, "good-120f", extra=b"\0assert at " + path + b"\0") == [
        FindingCode.BUILD_PATH]


@pytest.mark.parametrize("text", [
    b"csrc/ops.h", b"vllm/src/vllm/csrc/ops.h", b"/usr/lib/aarch64-linux-gnu/libc.so",
    b"http://host/src/vllm/x.h", b"/dev/shm", b"/tmp"])
def test_other_paths_are_no_finding(tmp_path: Path, text: bytes) -> None:
    assert codes(tmp_path, "good-120f", extra=b"\0" + text + b"\0") == []


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"no library")
    found = check_compiled([CompiledFile("x.so", tmp_path / "x.so")], "sm_121")
    assert [finding.code for finding in found] == [FindingCode.FATBIN_DAMAGED]
