"""Kernels that are missing or empty in a file that loads."""

from __future__ import annotations

from gate_facts import a_wheel

from builder.binaries.facts import Code, ElfFacts, Form, Region, Stub
from builder.gate.kernels import check_kernels

SM_120F, SM_120A = (Code(Form.SASS, 120, variant, 1, 10) for variant in "fa")
GUARD = "This kernel only supports sm120."
MMA = "Arch conditional MMA instruction used without targeting appropriate compute capability."


def findings(path: str, *regions: Region, stubs: tuple[Stub, ...] = (),
             codes: tuple[Code, ...] = (SM_120F,), version: str = "1.0") -> list[tuple[str, str]]:
    elf = ElfFacts(path, "aarch64", cuda=codes, regions=regions, stubs=stubs)
    found = check_kernels([a_wheel("w", version, elves=(elf,))], "sm_121")
    return [(one.code.value, one.severity.value) for one in found]


WHOLE = Region(("sm_120f", "sm_90a"), 3)


def test_a_part_with_code_for_120a_alone_is_missing_on_12_1() -> None:
    assert findings("vllm/_C.abi3.so", WHOLE, Region(("sm_100a", "sm_120a"), 2)) == [
        ("arch-exact-part", "error")]


def test_a_part_with_family_code_beside_120a_is_fine() -> None:
    assert findings("vllm/_C.abi3.so", WHOLE, Region(("sm_120a", "sm_120f"), 2)) == []
    assert findings("vllm/_C.abi3.so", WHOLE, Region(("compute_90", "sm_120a"), 2)) == []


def test_parts_for_other_gpus_are_meant_for_them() -> None:
    assert findings("vllm/_C.abi3.so", WHOLE, Region(("sm_100f", "sm_90a"), 2)) == []


def test_a_file_of_which_nothing_loads_is_found_elsewhere() -> None:
    assert findings("vllm/_C.abi3.so", Region(("sm_120a",), 2), codes=(SM_120A,)) == []


def test_kernels_that_refuse_are_an_error() -> None:
    stub = Stub("sm_121a", GUARD, "_ZN4vllm9scaled_mmEv", 4)
    assert findings("vllm/_C.abi3.so", WHOLE, stubs=(stub,)) == [("empty-kernels", "error")]


def test_kernels_that_refuse_elsewhere_are_not_taken_here() -> None:
    assert findings("vllm/_C.abi3.so", WHOLE, stubs=(Stub("sm_120a", GUARD, "k", 4),)) == []


def test_hoppers_kernels_in_torch_and_vllm_are_empty_here_and_never_called() -> None:
    machete = Stub("sm_120", MMA, "_ZN7cutlass13device_kernelIN7machete4GemmEEEvv", 72)
    assert findings("vllm/_C_stable_libtorch.abi3.so", WHOLE, stubs=(machete,)) == [
        ("empty-kernels", "note")]
    grouped = Stub("sm_120", MMA, "_ZN13CollectiveMmaINS1_34MainloopSm90TmaGmmaEE", 2)
    assert findings("torch/lib/libtorch_cuda.so", WHOLE, stubs=(grouped,)) == [
        ("empty-kernels", "note")]
    assert findings("torch/lib/libtorch_cuda.so", WHOLE, stubs=(machete,)) == [
        ("empty-kernels", "error")]


def test_the_finding_counts_kernels_and_names_one() -> None:
    stubs = tuple(Stub("sm_121a", GUARD, name, 2) for name in ("_ZN4vllm1aEv", "_ZN4vllm1bEv"))
    elf = ElfFacts("vllm/_C.so", "aarch64", cuda=(SM_120F,), stubs=stubs)
    (found,) = check_kernels([a_wheel("w", elves=(elf,))], "sm_121")
    assert "4 kernels for sm_121a" in found.what
    assert "vllm::a()" in found.what
