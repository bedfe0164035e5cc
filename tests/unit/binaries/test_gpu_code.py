"""All GPU code of a library, entry by entry."""

from __future__ import annotations

from pathlib import Path

import pytest
from elf_files import elf_file
from gpu_files import FAMILY, PTX, SASS, cubin, library, region

from builder.binaries.gpu_code import read_gpu_code
from builder.binaries.metered import UnreadableError


def test_every_entry_is_named_and_read(tmp_path: Path) -> None:
    codes = read_gpu_code(library(tmp_path, ["good-120f", "stub-121a"]))
    assert [(code.name, len(code.kernels)) for code in codes] == [("sm_120f", 2), ("sm_121a", 1)]
    assert codes[0].message == ""
    assert codes[1].message.startswith("This kernel only supports sm120.")
    assert codes[0].region != codes[1].region


def test_code_of_other_gpus_is_named_only(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(elf_file(sections={".nv_fatbin": region(
        (PTX, 80, 0, b"ptx"), (SASS, 90, 0, b"anything"))}))
    assert [(code.name, code.kernels) for code in read_gpu_code(path)] == [
        ("compute_80", ()), ("sm_90", ())]


def test_code_in_an_unknown_packing_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(elf_file(sections={".nv_fatbin": region(
        (SASS, 120, FAMILY | 0x2000, cubin("good-120f")))}))
    with pytest.raises(UnreadableError, match="sm_120f code at byte"):
        read_gpu_code(path)


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"no library")
    with pytest.raises(UnreadableError, match=r"x\.so is not a library"):
        read_gpu_code(tmp_path / "x.so")


def test_a_library_without_gpu_code_has_none(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(elf_file())
    assert read_gpu_code(tmp_path / "x.so") == ()
