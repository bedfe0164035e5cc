"""Recipes for the tests of ``wheels``, as documents and as models."""

from __future__ import annotations

import copy
from typing import Any

from builder.wheels.recipe import Recipe

COST = {"cpu_seconds": 600.0, "longest_seconds": 190.0, "memory_gb": 10.0, "objects": 19,
        "where": "x86-64, 2 cores"}
DOCUMENT: dict[str, Any] = {
    "schema": 1, "package": "vllm", "gpu": "sm_121", "tag": "121a",
    "sources": {"0.20.2": {"file": "vllm-0.20.2.tar.gz", "sha256": "a" * 64, "size": 33}},
    "toolchain": {"cuda": "13.0", "cross": ["g++-12-aarch64-linux-gnu"], "requirements": [
        {"name": "ninja", "version": "1.13.0", "sha256": "b" * 64, "size": 7,
         "file": "ninja-1.13.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"}]},
    "build": {"definitions": {"VLLM_TARGET_DEVICE": "cuda"}},
    "external": {"cutlass": {
        "package": "flashinfer-python", "file": "flashinfer_python-0.6.8.post1.tar.gz",
        "sha256": "c" * 64, "size": 6, "path": "3rdparty/cutlass",
        "variables": {"VLLM_CUTLASS_SRC_DIR": ""}}},
    "targets": {
        "_C": {"files": ["vllm/_C.abi3.so"], "sources": ["csrc/*"], "architectures": ["12.0f"],
               "cost": {**COST, "cpu_seconds": 8000.0}},
        "_C_stable_libtorch": {
            "files": ["vllm/_C_stable_libtorch.abi3.so"], "architectures": ["12.0f"],
            "sources": ["csrc/libtorch_stable/*", "CMakeLists.txt"], "instructions": ["QMMA"],
            "cost": COST}},
}


def document(**changed: Any) -> dict[str, Any]:
    """Return the document of a recipe, with other values at the top."""
    return {**copy.deepcopy(DOCUMENT), **changed}


def recipe(**changed: Any) -> Recipe:
    """Return a recipe."""
    return Recipe.model_validate(document(**changed))
