"""The package that answers for torch: its version and flags, read out of the real sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from builder.compile.inside.stub_torch import write


def real(folder: Path, flags: str = "COMMON_NVCC_FLAGS = ['-DX', '--y']\n") -> Path:
    (folder / "utils").mkdir(parents=True)
    (folder / "version.py").write_text(
        "__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n")
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


def test_it_has_the_types_that_a_generator_of_sources_asks_for(tmp_path: Path) -> None:
    write(real(tmp_path / "real"), tmp_path / "stubs")
    question = ("import torch; names = {torch.bfloat16: 'bf16', torch.float8_e4m3fn: 'e4m3'};"
                "print(names[torch.bfloat16], torch.bfloat16 == torch.float16,"
                "torch.float8_e4m3fn.itemsize, torch.bfloat16.itemsize, torch.uint32.itemsize,"
                "torch.version.cuda, torch._C._GLIBCXX_USE_CXX11_ABI, repr(torch.int8),"
                "isinstance(torch.int8, torch.dtype), torch.cuda.device_count())")
    answer = subprocess.run([sys.executable, "-c", question], cwd=tmp_path / "stubs", check=True,
                            capture_output=True, text=True).stdout
    assert answer.split() == ["bf16", "False", "1", "2", "4", "13.0", "True", "torch.int8", "True",
                              "0"]


def test_a_torch_without_the_flags_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="sets no COMMON_NVCC_FLAGS"):
        write(real(tmp_path / "real", ""), tmp_path / "stubs")
