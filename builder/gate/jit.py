"""Whether compilers and sources of kernels that are compiled while vLLM runs know the GPU.

A compiler of an older CUDA refuses a GPU that it does not know, in front of the first user. The
names that are in its file tell it now. The data is ``jit.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import tomli

from builder import specifiers
from builder.binaries.facts import BaseFacts, WheelFacts
from builder.locking.findings import Finding, FindingCode, Severity
from builder.model import Frozen, Specifier


class Compiler(Frozen):
    """A compiler in a wheel; one of the files that match must know the GPU."""

    name: str
    pattern: str
    instead: str = ""
    severity: Severity
    reason: str
    remedy: str
    link: str


class Sources(Frozen):
    """Sources of kernels in a wheel, and those that a GPU needs among them."""

    name: str
    wheel: str
    versions: Specifier
    gpus: str
    folder: str
    wanted: str
    severity: Severity
    reason: str
    remedy: str
    link: str


class Jit(Frozen):
    """All of ``jit.toml``."""

    compiler: tuple[Compiler, ...]
    sources: tuple[Sources, ...]


@cache
def jit() -> Jit:
    """Read the data that comes with the program."""
    text = Path(__file__).with_name("jit.toml").read_text(encoding="utf-8")
    return Jit.model_validate(tomli.loads(text))


def check_jit(wheels: Sequence[WheelFacts], gpu: str, base: BaseFacts | None = None,
              known: Jit | None = None) -> tuple[Finding, ...]:
    """Return the compilers that do not know a GPU, and the sources that lack it."""
    rules = known or jit()
    files = [(wheel, path, targets) for wheel in wheels for path, targets in wheel.targets]
    return (*(finding for rule in rules.compiler for finding in _compilers(rule, files, gpu, base)),
            *(finding for rule in rules.sources for finding in _sources(rule, wheels, gpu)))


def knows(targets: Sequence[str], gpu: str) -> bool:
    """Say whether a GPU is among the architectures that a compiler knows."""
    return gpu.removeprefix("sm_") in {name.rstrip("af") for name in targets}


def _compilers(rule: Compiler, files: Sequence[tuple[WheelFacts, str, tuple[str, ...]]], gpu: str,
               base: BaseFacts | None) -> Iterator[Finding]:
    there = [(wheel, path, targets) for wheel, path, targets in files
             if fnmatchcase(path, rule.pattern)]
    for file in sorted({wheel.file for wheel, _, _ in there}):
        mine = [(path, targets) for wheel, path, targets in there if wheel.file == file]
        if any(knows(targets, gpu) for _, targets in mine):
            continue
        path, targets = mine[-1]
        other = rule.instead and (
            any(fnmatchcase(one, rule.instead) and knows(known, gpu) for _, one, known in files)
            or (base is not None and Path(rule.instead).name in base.tools))
        newest = f"sm_{targets[-1]}"
        yield Finding(
            FindingCode.COMPILER_TOO_OLD,
            f"{rule.name} ({path}) does not know {gpu}, only up to {newest}: {rule.reason}"
            + ("; Sparkyard's images set TRITON_PTXAS_PATH to the one of their CUDA" if other
               else ""),
            rule.remedy, Severity.NOTE if other else rule.severity, file, path, expected=gpu,
            found=newest)


def _sources(rule: Sources, wheels: Sequence[WheelFacts], gpu: str) -> Iterator[Finding]:
    for wheel in wheels:
        if (wheel.name != rule.wheel or not fnmatchcase(gpu, rule.gpus)
                or not specifiers.allows(rule.versions, wheel.version)):
            continue
        paths = [path for path, _ in wheel.members if fnmatchcase(path, rule.folder)]
        if paths and not any(fnmatchcase(path, rule.wanted) for path in paths):
            yield Finding(
                FindingCode.KERNEL_SOURCES_MISSING,
                f"{rule.name} in {wheel.name} {wheel.version} has no sources for {gpu}: "
                f"{rule.reason}", rule.remedy, rule.severity, wheel.file, paths[0],
                expected=rule.wanted, found="nothing")
