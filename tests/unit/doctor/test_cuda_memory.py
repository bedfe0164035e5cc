"""The question to CUDA, asked of a stand-in for the driver's library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builder.doctor import cuda_memory

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
DRIVER = """
#include <stddef.h>
int cuInit(unsigned flags) { return INIT; }
int cuDeviceGet(int *device, int ordinal) { *device = 7; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = (void *)8;
    return device != 7;
}
int cuCtxSetCurrent(void *context) { return context != (void *)8; }
int cuMemGetInfo_v2(size_t *unused, size_t *all) {
    *unused = 118146539520;
    *all = 130653057024;
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
"""


def ask(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the program with the folder's library, as the doctor does."""
    return subprocess.run(
        [sys.executable, "-I", cuda_memory.__file__], capture_output=True, text=True, check=False,
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)})


def stand_in(folder: Path, init: int) -> None:
    (folder / "cuda.c").write_text(DRIVER)
    subprocess.run(["gcc", "-shared", "-fPIC", f"-DINIT={init}", "-o",
                    str(folder / cuda_memory.LIBRARY), str(folder / "cuda.c")], check=True)


@needs_gcc
def test_cuda_answers(tmp_path: Path) -> None:
    stand_in(tmp_path, 0)
    assert ask(tmp_path).stdout == "118146539520 130653057024\n"


@needs_gcc
def test_a_driver_that_refuses_gives_nothing(tmp_path: Path) -> None:
    stand_in(tmp_path, 100)
    done = ask(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "cuInit answers 100\n")


def test_a_library_that_is_no_library_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / cuda_memory.LIBRARY).write_text("nothing")
    done = ask(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
