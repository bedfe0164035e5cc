"""The driver's library to link against, compiled from the names in its header."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from builder.compile.inside.driver_stub import write

HEADER = """
#define cuMemAlloc cuMemAlloc_v2
CUresult CUDAAPI cuInit(unsigned int Flags);
 CUresult CUDAAPI cuMemAlloc(size_t bytes);
"""


def test_every_name_of_the_header_is_there(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    header = tmp_path / "cuda.h"
    header.write_text(HEADER)
    (tmp_path / "stubs").mkdir()
    write(header, tmp_path / "stubs", compiler)
    names = subprocess.run(["nm", "-D", tmp_path / "stubs" / "libcuda.so"], check=True,
                           capture_output=True, text=True).stdout
    assert {"cuInit", "cuMemAlloc", "cuMemAlloc_v2"} <= set(names.split())
