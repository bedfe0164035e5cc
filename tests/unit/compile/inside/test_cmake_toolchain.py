"""The CMake toolchain file, for cross and for native compiles."""

from __future__ import annotations

from pathlib import Path

from builder.compile.inside.cmake_toolchain import text


def test_a_cross_compile_names_processor_compiler_and_target() -> None:
    file = text(cross=True, renamed={"/src/": ""}, launcher=["ccache"], include=Path("/src/u.h"))
    assert "set(CMAKE_SYSTEM_PROCESSOR aarch64)" in file
    assert "/usr/bin/aarch64-linux-gnu-g++-12" in file
    assert "--target-directory sbsa-linux" in file
    assert "-include /src/u.h" in file
    assert "-Xcompiler=-ffile-prefix-map=/src/=" in file


def test_a_native_compile_names_none_of_them() -> None:
    file = text(cross=False, renamed={}, launcher=["python3", "m.py"], include=None)
    assert "aarch64" not in file
    assert "sbsa" not in file
    assert "set(CMAKE_CXX_COMPILER /usr/bin/g++-12)" in file
    assert "set(CMAKE_CUDA_COMPILER_LAUNCHER python3;m.py)" in file
