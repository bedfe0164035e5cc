"""What of NVIDIA's, torch's and other wheels goes where in the toolchain."""

from __future__ import annotations

import errno
import os
import zipfile
from pathlib import Path

import pytest
from patch_wheels import encrypted, torn

from builder.compile.unpacking import Piece, opened, placed
from builder.errors import UsageError
from builder.tarball import File, Link, content


@pytest.mark.parametrize(("name", "role", "place"), [
    ("nvidia/cu13/bin/nvcc", "tool", "opt/cuda/bin/nvcc"),
    ("nvidia/cu13/nvvm/bin/cicc", "tool", "opt/cuda/nvvm/bin/cicc"),
    ("nvidia/cu13/include/cuda.h", "target", "opt/cuda/targets/sbsa-linux/include/cuda.h"),
    ("nvidia/cu13/include/cuda.h", "tool", ""),
    ("nvidia/cu13/include/crt/host_defines.h", "tool",
     "opt/cuda/targets/sbsa-linux/include/crt/host_defines.h"),
    ("nvidia/cu13/lib/libcublasLt.so.13", "target", ""),
    ("nvidia/cu13/bin/nvcc", "target", ""),
    ("torch/include/ATen/ATen.h", "torch", "opt/torch/torch/include/ATen/ATen.h"),
    ("torch/nn/functional.py", "torch", ""),
    ("cmake/data/bin/cmake", "tool", "opt/tools/cmake/bin/cmake"),
    ("ninja-1.13.2.data/scripts/ninja", "tool", "opt/tools/bin/ninja"),
    ("tvm_ffi/include/tvm/ffi/any.h", "target", "opt/headers/tvm_ffi/include/tvm/ffi/any.h"),
    ("tvm_ffi/lib/libtvm_ffi.so", "target", ""),
    ("jinja2/environment.py", "tool", "opt/tools/python/jinja2/environment.py"),
    ("jinja2-3.1.6.dist-info/RECORD", "tool", ""),
])
def test_a_member_goes_to_its_place(name: str, role: str, place: str) -> None:
    assert placed(name, role) == place


def test_programs_run_and_libraries_have_the_linkers_name(tmp_path: Path) -> None:
    wheel = tmp_path / "cuda-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("nvidia/cu13/bin/nvcc", "program")
        archive.writestr("nvidia/cu13/lib/libcudart.so.13", "library")
    with opened(Piece(wheel, "tool")) as tools:
        program = tools[0]
        assert isinstance(program, File)
        assert program.executable
        assert content(program) == b"program"
    with opened(Piece(wheel, "target")) as found:
        assert [entry.path for entry in found if isinstance(entry, Link)] == [
            "opt/cuda/targets/sbsa-linux/lib/libcudart.so"]


def test_a_damaged_wheel_is_named(tmp_path: Path) -> None:
    wheel = tmp_path / "cuda-1-py3-none-any.whl"
    wheel.write_bytes(b"PK half of it")
    with pytest.raises(UsageError, match=r"cuda-1-py3-none-any\.whl is not a wheel"), \
            opened(Piece(wheel, "tool")):
        pass


def test_what_fails_around_a_sound_wheel_is_not_told_as_its_damage(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("torch/version.py", "x = 1")
    with pytest.raises(OSError, match="No space left"), opened(Piece(wheel, "torch")):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("how", ["stored", "deflated", "encrypted"])
def test_a_damaged_member_names_its_wheel(tmp_path: Path, how: str) -> None:
    wheel = tmp_path / "torch-1-py3-none-any.whl"
    kind = zipfile.ZIP_STORED if how == "stored" else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(wheel, "w", kind) as archive:
        archive.writestr("torch/version.py", "x = 1\n" * 100)
    encrypted(wheel) if how == "encrypted" else torn(wheel)
    with opened(Piece(wheel, "torch")) as (found,):
        assert isinstance(found, File)
        with pytest.raises(UsageError, match=r"torch-1-py3-none-any\.whl is not a wheel that"):
            content(found)
