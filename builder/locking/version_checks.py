"""Checks that need only the versions in a lock: the first part of the gate, before any download.

Pure functions over a cell and its lock, or over the versions found in a finished image.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from builder.errors import command
from builder.indexes.settings import DEFAULT_INDEX
from builder.locking.findings import Finding, FindingCode, Severity
from builder.locking.lock import Lock
from builder.matrix.cells import Cell

# The first releases that support Gemma 4; older ones fail with "gemma4: unknown model type".
# FlashInfer is required of CUDA cells only.
GEMMA4_FLOORS = {"transformers": Version("5.5.0"), "vllm": Version("0.19.0"),
                 "flashinfer-python": Version("0.6.6")}
# From this release on, transformers moves Gemma 4's ``global_head_dim`` into ``per_layer_config``
# and raises an error when ``head_dim`` is read. vLLM reads both up to 0.27.1 and
# ``per_layer_config`` since 0.28.0 (https://github.com/vllm-project/vllm/pull/49797; seen in the
# wheels of 0.19.1, 0.20.2 and 0.32.0).
PER_LAYER_CONFIG = Version("5.15")
FIRST_VLLM_WITH_IT = Version("0.28.0")
# vLLM before this release uses names that transformers 5 removed
# (https://github.com/runpod-workers/worker-vllm/pull/258: TokenizersBackend).
FIRST_VLLM_WITH_TRANSFORMERS5 = Version("0.19.0")
# Before this release the default index has only CPU builds of torch for aarch64.
FIRST_CUDA_TORCH_ON_AARCH64 = Version("2.11")
FLASHINFER = ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache")
# Compiler, headers and runtime of one CUDA release: mixed minor versions do not compile
# (https://github.com/vllm-project/vllm/issues/44305).
CUDA_TOOLCHAIN = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-cccl",
                  "nvidia-cuda-runtime", "nvidia-cuda-nvrtc")
# These are made to stand side by side (https://github.com/NVIDIA/cutlass/tree/main/python/CuTeDSL).
FOR_TWO_MAJORS = ("nvidia-cutlass-dsl-libs",)


@dataclass(frozen=True)
class Closure:
    """Versions by distribution name, and what the image must provide.

    ``subject`` is the image's key in the matrix. ``cpu_torch`` is true where torch was built
    without CUDA; ``cuda`` is the minor version that the CUDA toolchain must have.
    """

    subject: str
    versions: Mapping[str, str]
    promises: tuple[str, ...]
    gpu: str | None
    cuda: str | None
    cpu_torch: bool
    vllm: str = "vllm"

    def version(self, name: str) -> Version | None:
        """Return a distribution's version; None where it is absent or is not a valid version."""
        return _parsed(self.versions.get(name, ""))


def _parsed(text: str) -> Version | None:
    try:
        return Version(text)
    except ValueError:  # InvalidVersion, or a number of more digits than Python parses
        return None


def closure_of(cell: Cell, lock: Lock) -> Closure:
    """Return a locked cell as the checks need it."""
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
    """Return every reason in the lock's versions not to build the cell."""
    return (*check_closure(closure_of(cell, lock)), *unmet_requirements(cell, lock))


def check_closure(closure: Closure) -> tuple[Finding, ...]:
    """Return every reason in a closure's versions not to use it, locked or not."""
    return (*too_old_for_gemma4(closure), *too_new_for_gemma4(closure),
            *too_new_for_vllm(closure), *without_transformers5(closure), *cpu_torch(closure),
            *mixed_flashinfer(closure), *mixed_cuda(closure), *two_cuda_majors(closure))


def too_old_for_gemma4(closure: Closure) -> Iterator[Finding]:
    """Find a package that is too old for Gemma 4 in an image that promises it."""
    if "gemma4" not in closure.promises:
        return
    for package, floor in GEMMA4_FLOORS.items():
        if package == "flashinfer-python" and closure.gpu is None:
            continue
        name = closure.vllm if package == "vllm" else package
        version = closure.version(name)
        if version is None or version < floor:
            present = f"{name} {version}" if version else f"no {name}"
            yield Finding(
                FindingCode.GEMMA4_UNSUPPORTED,
                f"the image promises Gemma 4, which needs {name} >= {floor}, but has {present}",
                f"raise the version in {closure.subject}, or remove gemma4 from its promises",
                expected=f"{name} >= {floor}", found=present)


def too_new_for_gemma4(closure: Closure) -> Iterator[Finding]:
    """Find a transformers whose Gemma 4 configuration this vLLM cannot read.

    vLLM cannot load Gemma 4 in such an image, although transformers alone can.
    """
    vllm, transformers = closure.version(closure.vllm), closure.version("transformers")
    if "gemma4" not in closure.promises or vllm is None or transformers is None:
        return
    if Version(vllm.public) < FIRST_VLLM_WITH_IT and transformers >= PER_LAYER_CONFIG:
        yield Finding(
            FindingCode.GEMMA4_CONFIG,
            f"{closure.vllm} {vllm} cannot read the Gemma 4 configuration of transformers "
            f"{transformers}",
            f'add "<{PER_LAYER_CONFIG}" to {closure.subject}.transformers, or take a newer vLLM',
            expected=f"transformers < {PER_LAYER_CONFIG}", found=f"transformers {transformers}")


def too_new_for_vllm(closure: Closure) -> Iterator[Finding]:
    """Find transformers 5 beside a vLLM that was made for 4."""
    vllm, transformers = closure.version(closure.vllm), closure.version("transformers")
    if "gemma4" in closure.promises:
        return  # such a vLLM is too old for Gemma 4, which is said already
    if (vllm and transformers and transformers.major >= 5
            and Version(vllm.public) < FIRST_VLLM_WITH_TRANSFORMERS5):
        yield Finding(
            FindingCode.TRANSFORMERS_TOO_NEW,
            f"{closure.vllm} {vllm} was made for transformers 4, but {transformers} is there",
            f'set {closure.subject}.transformers to "<5", or take vLLM '
            f"{FIRST_VLLM_WITH_TRANSFORMERS5} or newer", expected="transformers < 5",
            found=f"transformers {transformers}")


def without_transformers5(closure: Closure) -> Iterator[Finding]:
    """Find another major version in an image that promises transformers 5."""
    if "transformers5" not in closure.promises:
        return
    version = closure.version("transformers")
    if version is None or version.major != 5:
        present = f"transformers {version}" if version else "no transformers"
        yield Finding(
            FindingCode.NO_TRANSFORMERS5,
            f"the image promises transformers 5 but has {present}",
            f"set {closure.subject}.transformers, with override = true where vLLM's own "
            "requirement excludes it", expected="transformers 5", found=present)


def cpu_torch(closure: Closure) -> Iterator[Finding]:
    """Find a torch without CUDA in a closure for a GPU."""
    if closure.gpu is not None and closure.cpu_torch:
        present = f"torch {closure.version('torch')}"
        yield Finding(
            FindingCode.CPU_TORCH, f"{present} is a CPU build, but the image is for {closure.gpu}",
            f"use torch >= {FIRST_CUDA_TORCH_ON_AARCH64}, or name an index of CUDA builds in "
            f"{closure.subject}.indexes", expected="a CUDA build", found=present)


def mixed_flashinfer(closure: Closure) -> Iterator[Finding]:
    """Find FlashInfer packages of different versions: FlashInfer refuses to be imported then."""
    present = {name: version for name in FLASHINFER if (version := closure.version(name))}
    if len({version.public for version in present.values()}) > 1:
        versions = ", ".join(f"{name} {closure.versions[name]}" for name in sorted(present))
        yield Finding(
            FindingCode.MIXED_FLASHINFER, f"FlashInfer's packages differ in version: {versions}",
            f"pin them to one version in {closure.subject}.requires", expected="one version",
            found=versions)


def mixed_cuda(closure: Closure) -> Iterator[Finding]:
    """Find parts of the CUDA toolchain that are not of the cell's CUDA minor version."""
    if closure.cuda is None:
        return
    wanted = Version(closure.cuda).release[:2]
    names = [name for name in sorted(closure.versions)
             if re.sub(r"-cu\d+$", "", name) in CUDA_TOOLCHAIN
             and (version := closure.version(name)) and version.release[:2] != wanted]
    if names:
        others = ", ".join(f"{name} {closure.versions[name]}" for name in names)
        pins = ", ".join(f'"{name}=={closure.cuda}.*"' for name in names)
        yield Finding(
            FindingCode.MIXED_CUDA,
            f"these packages are not of CUDA {closure.cuda}: {others}",
            f"add {pins} to {closure.subject}.requires", expected=f"CUDA {closure.cuda}",
            found=others)


def two_cuda_majors(closure: Closure) -> Iterator[Finding]:
    """Find NVIDIA's libraries for two major versions of CUDA side by side."""
    if closure.gpu is None:
        return
    names: dict[str, list[str]] = {}
    for name in sorted(closure.versions):
        plain = re.sub(r"-cu\d+$", "", name)
        if plain.startswith("nvidia-") and plain not in FOR_TWO_MAJORS:
            names.setdefault(plain, []).append(name)
    both = [found for found in names.values() if len(found) > 1]
    if both:
        listed = ", ".join(" and ".join(found) for found in both)
        yield Finding(
            FindingCode.TWO_CUDA_MAJORS, f"libraries of two CUDA major versions: {listed}",
            f"lock torch, vLLM and their extensions in {closure.subject} for one CUDA version",
            Severity.WARNING, expected="one CUDA major version", found=listed)


def unmet_requirements(cell: Cell, lock: Lock) -> Iterator[Finding]:
    """Find requirements of the matrix that the lock does not satisfy, as after an edit by hand."""
    next_step = f"run {command('lock', cell.id)}"
    for text in (*cell.requirements, *cell.overrides):
        requirement = Requirement(text)
        if requirement.marker is not None:
            continue  # only the resolver knows whether it applies
        wheel = lock.wheel(canonicalize_name(requirement.name))
        if wheel is None or not requirement.specifier.contains(wheel.version, prereleases=True):
            present = f"{wheel.name} {wheel.version}" if wheel else f"no {requirement.name}"
            yield Finding(FindingCode.UNMET,
                          f"the matrix asks for {text}, but the lock has {present}", next_step,
                          expected=text, found=present)
    for name in cell.leave_out:
        if lock.wheel(canonicalize_name(name)):
            yield Finding(FindingCode.NOT_LEFT_OUT,
                          f"{name} is locked, but the matrix leaves it out", next_step, found=name)
