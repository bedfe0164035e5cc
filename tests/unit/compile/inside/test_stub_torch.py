"""The package that answers for torch: its version and flags, read out of the real sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from builder.compile.inside.stub_torch import write


def real(folder: Path, flags: str = "COMMON_NVCC_FLAGS = ['-DX', '--y']\n") -> Path:
    (folder / "utils").mkdir(parents=True)
    (folder / "version.py").write_text("__version__ = '2.11.0+cu130'\ncuda = '13.0'\n")
    (folder / "utils" / "cpp_extension.py").write_text("import setuptools_is_not_here\n" + flags)
    return folder


def test_it_answers_what_a_build_asks(tmp_path: Path) -> None:
    write(real(tmp_path / "real"), tmp_path / "stubs")
    question = ("import torch; from torch.utils.cpp_extension import COMMON_NVCC_FLAGS as f;"
                "print(torch.__version__, torch.utils.cmake_prefix_path, f)")
    answer = subprocess.run([sys.executable, "-c", question], cwd=tmp_path / "stubs", check=True,
                            capture_output=True, text=True).stdout
    assert answer.split() == ["2.11.0+cu130", str(tmp_path / "real/share/cmake"), "['-DX',",
                              "'--y']"]


def test_a_torch_without_the_flags_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="sets no COMMON_NVCC_FLAGS"):
        write(real(tmp_path / "real", ""), tmp_path / "stubs")
