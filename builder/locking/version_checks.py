"""What a lock's versions alone tell: the first part of the gate, decided before a byte moves.

Pure functions over a cell and its lock. A finding has a stable code and the number of the field
failure (F1 to F28) that it stands for, so that a report and a test can name it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from builder.indexes.settings import DEFAULT_INDEX
from builder.locking.findings import Finding
from builder.locking.lock import Lock
from builder.matrix.cells import Cell

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


@dataclass(frozen=True)
class Closure:
    """Versions by name, and what they are to be: ``subject`` is how the matrix names the image.

    ``cpu_torch`` says that its torch was built without CUDA; ``cuda`` is the minor version that
    the toolchain must have.
    """

    subject: str
    versions: Mapping[str, str]
    promises: tuple[str, ...]
    gpu: str | None
    cuda: str | None
    cpu_torch: bool
    vllm: str = "vllm"

    def version(self, name: str) -> Version | None:
        """Return a distribution's version; None where it is not there."""
        found = self.versions.get(name)
        return None if found is None else Version(found)


def closure_of(cell: Cell, lock: Lock) -> Closure:
    """Return a locked cell as the checks see it."""
    return Closure(f"images.{cell.image}", {wheel.name: wheel.version for wheel in lock.wheels},
                   cell.promises, cell.gpu, cell.cuda, _cpu_build(cell, lock), cell.vllm_package)


def _cpu_build(cell: Cell, lock: Lock) -> bool:
    torch = lock.wheel("torch")
    if torch is None:
        return False
    version = Version(torch.version)
    plain = (cell.machine == "aarch64" and torch.index == DEFAULT_INDEX
             and version < FIRST_CUDA_TORCH_ON_AARCH64)
    return plain or (version.local or "").startswith("cpu")


def check_versions(cell: Cell, lock: Lock) -> tuple[Finding, ...]:
    """Return everything that the lock's versions say against building the cell."""
    return (*check_closure(closure_of(cell, lock)), *unmet_requirements(cell, lock))


def check_closure(closure: Closure) -> tuple[Finding, ...]:
    """Return everything that a closure's versions say against it, locked or not."""
    return (*too_old_for_gemma4(closure), *too_new_for_gemma4(closure),
            *without_transformers5(closure), *cpu_torch(closure), *mixed_flashinfer(closure),
            *mixed_cuda(closure))


def too_old_for_gemma4(closure: Closure) -> Iterator[Finding]:
    """F1: the image promises Gemma 4, but a package cannot know it (``gemma4`` unknown)."""
    if "gemma4" not in closure.promises:
        return
    for package, floor in GEMMA4_FLOORS.items():
        if package == "flashinfer-python" and closure.gpu is None:
            continue
        name = closure.vllm if package == "vllm" else package
        version = closure.version(name)
        if version is None or version < floor:
            have = f"{name} {version}" if version else f"no {name}"
            yield Finding(
                "gemma4-unsupported", "F1", f"it has {have}, and Gemma 4 needs {name} >= {floor}",
                f"raise it in {closure.subject}, or drop gemma4 from its promises",
                expected=f"{name} >= {floor}", found=have)


def too_new_for_gemma4(closure: Closure) -> Iterator[Finding]:
    """Find a transformers whose Gemma 4 configuration this vLLM cannot read.

    Such an image boots no Gemma 4 at all, while transformers alone answers in it.
    """
    vllm, transformers = closure.version(closure.vllm), closure.version("transformers")
    if "gemma4" not in closure.promises or vllm is None or transformers is None:
        return
    if Version(vllm.public) <= LAST_VLLM_SEEN_WITHOUT and transformers >= PER_LAYER_CONFIG:
        yield Finding(
            "gemma4-config", "", f"transformers {transformers} hides Gemma 4's head sizes from "
            f"{closure.vllm} {vllm}", f'write "<{PER_LAYER_CONFIG}" into {closure.subject}.'
            "transformers", expected=f"transformers < {PER_LAYER_CONFIG}",
            found=f"transformers {transformers}")


def without_transformers5(closure: Closure) -> Iterator[Finding]:
    """F2: an image that promises transformers 5 holds another one."""
    if "transformers5" not in closure.promises:
        return
    version = closure.version("transformers")
    if version is None or version.major != 5:
        have = f"transformers {version}" if version else "no transformers"
        yield Finding("no-transformers5", "F2", f"the image promises transformers 5 and has {have}",
                      f"set {closure.subject}.transformers, with override = true where vLLM's "
                      "own range forbids it", expected="transformers 5", found=have)


def cpu_torch(closure: Closure) -> Iterator[Finding]:
    """F3: a closure for a GPU got a torch that was built without CUDA."""
    if closure.gpu is not None and closure.cpu_torch:
        have = f"torch {closure.version('torch')}"
        yield Finding("cpu-torch", "F3", f"{have} is a CPU build, and this is for {closure.gpu}",
                      f"take torch >= {FIRST_CUDA_TORCH_ON_AARCH64}, or name an index of CUDA "
                      f"builds in {closure.subject}.indexes", expected="a CUDA build", found=have)


def mixed_flashinfer(closure: Closure) -> Iterator[Finding]:
    """F7: FlashInfer refuses to be imported when its packages differ in version."""
    found = {name: closure.versions[name] for name in FLASHINFER if name in closure.versions}
    if len({Version(version).public for version in found.values()}) > 1:
        have = ", ".join(f"{name} {version}" for name, version in sorted(found.items()))
        yield Finding("mixed-flashinfer", "F7", f"FlashInfer's packages differ in version: {have}",
                      "pin them to one version in the image's requires", expected="one version",
                      found=have)


def mixed_cuda(closure: Closure) -> Iterator[Finding]:
    """F28: a component of the CUDA toolchain is of another minor version than the cell's CUDA."""
    if closure.cuda is None:
        return
    wanted = Version(closure.cuda).release[:2]
    wrong = [f"{name} {version}" for name, version in sorted(closure.versions.items())
             if re.sub(r"-cu\d+$", "", name) in CUDA_TOOLCHAIN
             and Version(version).release[:2] != wanted]
    if wrong:
        pins = ", ".join(f'"{text.split()[0]}=={closure.cuda}.*"' for text in wrong)
        yield Finding("mixed-cuda", "F28", f"not of CUDA {closure.cuda}: {', '.join(wrong)}",
                      f"add {pins} to {closure.subject}.requires", expected=f"CUDA {closure.cuda}",
                      found=", ".join(wrong))


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
