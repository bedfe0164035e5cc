"""Which GPUs a compiler in a wheel knows, by the names in its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from elf_files import make_wheel

from builder.binaries import compilers, wheel_facts
from builder.binaries.compilers import Names, is_compiler
from builder.binaries.wheel_facts import read_wheel

PTXAS = "triton/backends/nvidia/bin/ptxas"


@pytest.mark.parametrize(("path", "is_one"), [
    (PTXAS, True), (PTXAS + "-blackwell", True), ("nvidia/cu13/nvvm/bin/cicc", True),
    ("nvidia/cu13/lib/libnvrtc.so.13", True), ("torch/lib/libtorch_cuda.so", False),
    ("nvidia_cutlass_dsl/dsl_packages/cutlass/cute/nvgpu/warp/mma.py", True)])
def test_which_files_are_compilers(path: str, *, is_one: bool) -> None:
    assert is_compiler(path) is is_one


def test_names_across_pieces_in_order() -> None:
    names = Names()
    for piece in (b"sm_90a\0 sm_1", b"20a\0sm_121f, ", b"sm_1200 sm_9x"):
        names.feed(piece)
    assert names.sorted() == ("90a", "120a", "121f")


def test_names_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "MOST_NAMES", 1)
    names = Names()
    names.feed(b"sm_80 sm_90 ")
    assert names.sorted() == ("80",)


def test_a_wheel_says_what_its_compilers_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                              ) -> None:
    members = {PTXAS: b"\0sm_120a\0" + bytes(100) + b"sm_121a\0", "a/b.py": b"sm_121"}
    expected = ((PTXAS, ("120a", "121a")),)
    path = make_wheel(tmp_path, members)
    assert read_wheel(path, "0").targets == expected
    monkeypatch.setattr(wheel_facts, "CHUNK_BYTES", 7)
    assert read_wheel(path, "0").targets == expected
