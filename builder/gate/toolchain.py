"""The tools that vLLM needs after its start, to compile kernels.

Triton compiles its launcher in C at the first launch, against Python.h, and asks ldconfig where
the driver is; Gemma 4 always uses Triton's attention. FlashInfer compiles kernels with
nvcc and CUDA's C++ library, or the engine dies at start
(https://github.com/vllm-project/vllm/issues/49497).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from builder.binaries.facts import BaseFacts, WheelFacts
from builder.locking.findings import Finding, FindingCode

HOST_TOOLS = ("gcc", "libc headers", "Python.h", "ldconfig")
# Where NVIDIA's wheels have what a CUDA toolkit has under /usr/local/cuda.
CUDA_TOOLS = {
    "nvcc": r"nvidia/(cu\d+|cuda_nvcc)/bin/nvcc$",
    "ptxas": r"nvidia/(cu\d+|cuda_nvcc)/bin/ptxas$",
    "cccl": r"nvidia/(cu\d+|cuda_cccl)/include/(cccl/)?cuda/std/version$",
}
DEBIAN = {"gcc": "gcc", "libc headers": "libc6-dev", "Python.h": "python3-dev",
          "ldconfig": "libc-bin"}


def check_toolchain(wheels: Sequence[WheelFacts], base: BaseFacts, *, whole: bool = True
                    ) -> tuple[Finding, ...]:
    """Return the tools that a CUDA closure needs at run time and does not have.

    Where the wheels are not a ``whole`` closure, CUDA's tools may be in the absent ones.
    """
    findings = [_missing(tool, f"add the Debian package {DEBIAN[tool]} to the base")
                for tool in HOST_TOOLS if tool not in base.tools]
    for tool, pattern in CUDA_TOOLS.items() if whole else ():
        mark = re.compile(pattern)
        if tool not in base.tools and not any(
                mark.search(path) for wheel in wheels for path, _ in wheel.members):
            findings.append(_missing(tool, "use a base with the CUDA toolkit, or add NVIDIA's "
                                     "wheel of it to the base's toolchain in matrix.toml"))
    return tuple(findings)


def _missing(tool: str, next_step: str) -> Finding:
    return Finding(FindingCode.TOOLCHAIN_MISSING,
                   f"neither the base nor a wheel has {tool}, which is needed to compile the "
                   "first kernel", next_step, expected=tool, found="nothing")
