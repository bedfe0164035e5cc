"""What a lock's versions alone tell: the first part of the gate, decided before a byte moves.

Pure functions over a cell and its lock. A finding has a stable code and the number of the field
failure (F1 to F28) that it stands for, so that a report and a test can name it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from builder.cells import Cell
from builder.gate.findings import Finding
from builder.lock import DEFAULT_INDEX, Lock

# The first releases that know Gemma 4; transformers 4 ends with "gemma4: unknown model type".
# FlashInfer is asked of CUDA cells only.
GEMMA4_FLOORS = {"transformers": Version("5.5.0"), "vllm": Version("0.19.0"),
                 "flashinfer-python": Version("0.6.6")}
# From this release on transformers folds Gemma 4's ``global_head_dim`` into ``per_layer_config``
# and refuses to be asked for ``head_dim``; vLLM's gemma4.py reads both up to 0.20.2 (seen in the
# wheels of 0.19.1 and 0.20.2) and ``per_layer_config`` in 0.32.0; between them nobody looked.
PER_LAYER_CONFIG = Version("5.15")
LAST_VLLM_SEEN_WITHOUT = Version("0.20.2")
# Before this release the default index has only CPU builds of torch for aarch64.
FIRST_CUDA_TORCH_ON_AARCH64 = Version("2.11")
FLASHINFER = ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache")
# Compiler, headers and run-time of one CUDA release: mixed minor versions do not compile
# (https://github.com/vllm-project/vllm/issues/44305).
CUDA_TOOLCHAIN = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-cccl",
                  "nvidia-cuda-runtime", "nvidia-cuda-nvrtc")


def check_versions(cell: Cell, lock: Lock) -> tuple[Finding, ...]:
    """Return everything that the lock's versions say against building the cell."""
    return (*too_old_for_gemma4(cell, lock), *too_new_for_gemma4(cell, lock),
            *without_transformers5(cell, lock), *cpu_torch(cell, lock),
            *mixed_flashinfer(lock), *mixed_cuda(cell, lock), *unmet_requirements(cell, lock))


def too_old_for_gemma4(cell: Cell, lock: Lock) -> Iterator[Finding]:
    """F1: the image promises Gemma 4, but a package cannot know it (``gemma4`` unknown)."""
    if "gemma4" not in cell.promises:
        return
    for package, floor in GEMMA4_FLOORS.items():
        if package == "flashinfer-python" and not cell.is_cuda:
            continue
        name = cell.vllm_package if package == "vllm" else package
        wheel = lock.wheel(name)
        if wheel is None or Version(wheel.version) < floor:
            have = f"{name} {wheel.version}" if wheel else f"no {name}"
            yield Finding(
                "gemma4-unsupported", "F1",
                f"{have} is locked, and Gemma 4 needs {name} >= {floor}",
                f"raise it in images.{cell.image}, or drop gemma4 from its promises")


def too_new_for_gemma4(cell: Cell, lock: Lock) -> Iterator[Finding]:
    """Find a transformers whose Gemma 4 configuration this vLLM cannot read.

    Such an image boots no Gemma 4 at all, while transformers alone answers in it.
    """
    vllm, transformers = lock.wheel(cell.vllm_package), lock.wheel("transformers")
    if "gemma4" not in cell.promises or vllm is None or transformers is None:
        return
    if (Version(Version(vllm.version).public) <= LAST_VLLM_SEEN_WITHOUT
            and Version(transformers.version) >= PER_LAYER_CONFIG):
        yield Finding(
            "gemma4-config", "", f"transformers {transformers.version} hides Gemma 4's head sizes "
            f"from {vllm.name} {vllm.version}",
            f'write "<{PER_LAYER_CONFIG}" into images.{cell.image}.transformers')


def without_transformers5(cell: Cell, lock: Lock) -> Iterator[Finding]:
    """F2: an image that promises transformers 5 holds another one."""
    if "transformers5" not in cell.promises:
        return
    wheel = lock.wheel("transformers")
    if wheel is None or Version(wheel.version).major != 5:
        have = f"transformers {wheel.version}" if wheel else "no transformers"
        yield Finding("no-transformers5", "F2", f"the image promises transformers 5 and has {have}",
                      f"set images.{cell.image}.transformers, with override = true where vLLM's "
                      "own range forbids it")


def cpu_torch(cell: Cell, lock: Lock) -> Iterator[Finding]:
    """F3: a cell for a GPU got a torch that was built without CUDA."""
    torch = lock.wheel("torch")
    if not cell.is_cuda or torch is None:
        return
    version = Version(torch.version)
    plain = (cell.machine == "aarch64" and torch.index == DEFAULT_INDEX
             and version < FIRST_CUDA_TORCH_ON_AARCH64)
    if plain or (version.local or "").startswith("cpu"):
        yield Finding("cpu-torch", "F3", f"torch {version} is a CPU build in a cell for {cell.gpu}",
                      f"take torch >= {FIRST_CUDA_TORCH_ON_AARCH64}, or name an index of CUDA "
                      f"builds in images.{cell.image}.indexes")


def mixed_flashinfer(lock: Lock) -> Iterator[Finding]:
    """F7: FlashInfer refuses to be imported when its packages differ in version."""
    found = {wheel.name: wheel.version for wheel in lock.wheels if wheel.name in FLASHINFER}
    if len({Version(version).public for version in found.values()}) > 1:
        have = ", ".join(f"{name} {version}" for name, version in sorted(found.items()))
        yield Finding("mixed-flashinfer", "F7", f"FlashInfer's packages differ in version: {have}",
                      "pin them to one version in the image's requires")


def mixed_cuda(cell: Cell, lock: Lock) -> Iterator[Finding]:
    """F28: a component of the CUDA toolchain is of another minor version than the cell's CUDA."""
    if cell.cuda is None:
        return
    wanted = Version(cell.cuda).release[:2]
    wrong = [f"{wheel.name} {wheel.version}" for wheel in lock.wheels
             if re.sub(r"-cu\d+$", "", wheel.name) in CUDA_TOOLCHAIN
             and Version(wheel.version).release[:2] != wanted]
    if wrong:
        pins = ", ".join(f'"{text.split()[0]}=={cell.cuda}.*"' for text in wrong)
        yield Finding("mixed-cuda", "F28", f"not of CUDA {cell.cuda}: {', '.join(wrong)}",
                      f"add {pins} to images.{cell.image}.requires")


def unmet_requirements(cell: Cell, lock: Lock) -> Iterator[Finding]:
    """Say which of the matrix's own wishes the lock does not answer (a lock edited by hand)."""
    mend = f"run `sparkyard lock {cell.id}`"
    for text in (*cell.requirements, *cell.overrides):
        wish = Requirement(text)
        if wish.marker is not None:
            continue  # whether it holds is the resolver's business
        wheel = lock.wheel(canonicalize_name(wish.name))
        if wheel is None or not wish.specifier.contains(wheel.version, prereleases=True):
            have = f"{wheel.name} {wheel.version}" if wheel else f"no {wish.name}"
            yield Finding("unmet", "", f"the matrix asks for {text}, the lock has {have}", mend)
    for name in cell.leave_out:
        if lock.wheel(canonicalize_name(name)):
            yield Finding("not-left-out", "", f"{name} is locked though it is to be left out", mend)
