"""The CMake toolchain file: for another processor with nvcc's cross mode, or for this one."""

from __future__ import annotations

from pathlib import Path

CUDA = Path("/opt/cuda")
CROSS = """\
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_STRIP /usr/bin/aarch64-linux-gnu-strip)
"""
COMMON = """\
set(CMAKE_C_COMPILER /usr/bin/{prefix}gcc-12)
set(CMAKE_CXX_COMPILER /usr/bin/{prefix}g++-12)
set(CMAKE_CUDA_HOST_COMPILER /usr/bin/{prefix}g++-12)
set(CMAKE_CUDA_COMPILER {cuda}/bin/nvcc)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
set(CUDA_TOOLKIT_ROOT_DIR {cuda})
set(CUDAToolkit_ROOT {cuda})
set(CMAKE_C_FLAGS_INIT "{flags}")
set(CMAKE_CXX_FLAGS_INIT "{flags}")
set(CMAKE_CUDA_FLAGS_INIT "{cuda_flags}")
set(CMAKE_CXX_COMPILER_LAUNCHER {launcher})
set(CMAKE_CUDA_COMPILER_LAUNCHER {launcher})
"""


def text(*, cross: bool, renamed: dict[str, str], launcher: list[str], include: Path | None) -> str:
    """Return the file; ``renamed`` maps folders of the build to what files may say of them.

    ``include`` is a header that every CUDA file begins with.
    """
    flags = " ".join(f"-ffile-prefix-map={old}={new}" for old, new in renamed.items())
    words = [f"-Xcompiler=-ffile-prefix-map={old}={new}" for old, new in renamed.items()]
    if cross:
        words.insert(0, "--target-directory sbsa-linux")
    if include:
        words.append(f"-include {include}")
    return (CROSS if cross else "") + COMMON.format(
        prefix="aarch64-linux-gnu-" if cross else "", cuda=CUDA, flags=flags,
        cuda_flags=" ".join(words), launcher=";".join(launcher))
