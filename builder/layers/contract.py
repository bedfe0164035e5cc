"""What a launcher may rely on in every image: folders, variables, and one known NCCL.

An image works for any user (``--user UID:GID``), also with a read-only root file system: then a
tmpfs or a mount has to lie at ``/tmp``, ``/cache`` and ``/workspace``. Every cache of the stack
lies below ``/cache``, so that nothing needs the home folder of root. See docs/image-contract.md.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from builder import labels as label
from builder.fetch.wheels import FetchedWheels
from builder.tarball import CHUNK_BYTES

WORKSPACE = "/workspace"
HUB_CACHE = "/cache/huggingface"  # the names under which sparkrun mounts its folders
RUNTIME_CACHE = "/cache/runtime"
VLLM_CACHE = f"{RUNTIME_CACHE}/vllm"
WRITABLE = (WORKSPACE, "/cache", HUB_CACHE, RUNTIME_CACHE)
WRITABLE_MODE = 0o1777  # for all, as /tmp is
# A user without an entry in /etc/passwd has no name, and PyTorch's compiler asks for one.
ENVIRONMENT: Mapping[str, str] = {
    "HOME": "/tmp",  # noqa: S108 - in the container
    "USER": "sparkyard",
    "HF_HOME": HUB_CACHE,
    "XDG_CACHE_HOME": RUNTIME_CACHE,
    "VLLM_CACHE_ROOT": VLLM_CACHE,
    "TRITON_CACHE_DIR": f"{RUNTIME_CACHE}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{RUNTIME_CACHE}/torchinductor",
    "FLASHINFER_WORKSPACE_BASE": RUNTIME_CACHE,
    "CUDA_CACHE_PATH": f"{RUNTIME_CACHE}/cuda",
}
NCCL_NAME = "libnccl.so"


def nccl_labels(wheels: FetchedWheels) -> dict[str, str]:
    """Return the label with the sha256 of the wheels' NCCL library; none where no wheel has one.

    Two builds of one NCCL version are different programs, so that the version does not tell
    which one an image has. Should several wheels bring one, all are named.
    """
    digests = sorted({_sha256(path, member) for path in wheels.paths.values()
                      for member in _nccl_members(path)})
    return {label.NCCL: ",".join(digests)} if digests else {}


def _nccl_members(wheel: Path) -> Iterator[str]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            file = PurePosixPath(name).name
            if file == NCCL_NAME or file.startswith(f"{NCCL_NAME}."):
                yield name


def _sha256(wheel: Path, member: str) -> str:
    state = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            state.update(chunk)
    return state.hexdigest()
