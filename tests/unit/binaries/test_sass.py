"""Instructions in real machine code: what kernels use, and which of them only trap."""

from __future__ import annotations

import pytest
from gpu_files import cubin

from builder.binaries.metered import UnreadableError
from builder.binaries.sass import kernels


@pytest.mark.parametrize("name", ["good-120f", "good-121a", "exact-120a"])
def test_matrix_instructions_are_found(name: str) -> None:
    found = {kernel.name: dict(kernel.instructions) for kernel in kernels(cubin(name))}
    assert found == {"fp8": {"QMMA": 1}, "fp4": {"OMMA": 1}}
    assert not any(kernel.trap_only for kernel in kernels(cubin(name)))


def test_a_stub_only_traps() -> None:
    (stub,) = kernels(cubin("stub-121a"))
    assert (stub.name, dict(stub.instructions), stub.trap_only) == ("fp8", {}, True)


def test_a_kernel_that_traps_without_a_word_is_found_beside_a_good_one() -> None:
    assert {kernel.name: kernel.trap_only for kernel in kernels(cubin("trap-121a"))} == {
        "fp8": False, "silent": True}


def test_a_cubin_that_is_cut_anywhere_is_damaged_or_has_less() -> None:
    whole = cubin("good-120f")
    for end in range(0, len(whole), 97):
        try:
            assert len(kernels(whole[:end])) <= 2
        except UnreadableError:
            continue
