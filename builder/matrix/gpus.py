"""The GPUs that CUDA's compiler knows, and the first CUDA that does: a slip in either is an error.

Read from the release notes of CUDA and the compute capabilities that nvcc lists:
https://docs.nvidia.com/cuda/cuda-toolkit-release-notes and https://developer.nvidia.com/cuda-gpus.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from packaging.version import InvalidVersion, Version

FIRST_CUDA: Mapping[str, str] = {
    "sm_75": "10.0", "sm_80": "11.0", "sm_86": "11.1", "sm_87": "11.4", "sm_88": "13.0",
    "sm_89": "11.8", "sm_90": "11.8", "sm_100": "12.8", "sm_103": "12.9", "sm_110": "13.0",
    "sm_120": "12.8", "sm_121": "12.9"}
NEWEST_CUDA = 13  # its major version; a minor one that is not out yet is the resolver's to refuse


def wrong_gpu(gpu: object, cuda: object) -> Iterator[tuple[str, str, str]]:
    """Yield the key (``gpu`` or ``cuda``), what is wrong and what to write; both may be anything.

    What has not even the form of a GPU or a version is the shape's to refuse.
    """
    known = isinstance(gpu, str) and gpu in FIRST_CUDA
    if isinstance(gpu, str) and re.fullmatch(r"sm_\d{2,3}", gpu) and not known:
        yield "gpu", f"{gpu} is no GPU that CUDA compiles for", f"known: {', '.join(FIRST_CUDA)}"
    try:
        version = Version(cuda) if isinstance(cuda, str) and len(cuda) <= len("99.99") else None
    except InvalidVersion:
        return
    if version is None:
        return
    if version.major > NEWEST_CUDA:
        yield ("cuda", f"no CUDA {cuda} is known; the newest is {NEWEST_CUDA}.x",
               'write it like "13.0"')
    elif known and version < Version(FIRST_CUDA[str(gpu)]):
        yield ("cuda", f"CUDA {cuda} does not compile for {gpu}",
               f"the first that does is {FIRST_CUDA[str(gpu)]}")
