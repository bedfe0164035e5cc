"""Judge what was compiled by its code, not by its labels.

vLLM's stock sources, compiled for 12.1a, give kernels that print a message and trap: every check of
architectures passes them. So each file must have code that runs on the GPU, no kernel of it may
only trap, and the instructions that its kernels exist for must be there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from builder.binaries.gpu_code import GpuCode, read_gpu_code
from builder.binaries.metered import UnreadableError
from builder.gate.abi import demangle
from builder.gate.kernels import NAME_SHOWN, loads
from builder.locking.findings import Finding, FindingCode, Severity, counted

# Folders of a build's container and of people's machines; a file that runs elsewhere needs none.
BUILD_PATH = re.compile(
    rb"(?<![\w./-])/(?:src|build|order|ccache|stubs|opt/(?:cuda|torch|tools)|home|root|tmp|work"
    rb"|Users|var/lib/docker)/[\w.+/-]{3,200}")
# A command line that NVIDIA's tools write down names files of theirs below /tmp; a kernel has none.
HARMLESS = re.compile(rb"/tmp/tmpxft_[\w.-]+")
SHOWN = 3


@dataclass(frozen=True)
class CompiledFile:
    """A compiled file: its path in the wheel, where it lies, and what its kernels exist for."""

    path: str
    place: Path
    instructions: tuple[str, ...] = ()
    has_gpu_code: bool = True


@dataclass
class _Seen:
    instructions: Counter[str] = field(default_factory=Counter)
    traps: list[str] = field(default_factory=list)
    messages: set[str] = field(default_factory=set)


def check_compiled(files: Sequence[CompiledFile], gpu: str, wheel: str = ""
                   ) -> tuple[Finding, ...]:
    """Return what is wrong with compiled files, all of it; empty where they are right."""
    found: list[Finding] = []
    for file in files:
        try:
            codes = read_gpu_code(file.place)
        except UnreadableError as error:
            found.append(_finding(FindingCode.FATBIN_DAMAGED, wheel, file, str(error),
                                  "compile it again"))
            continue
        if file.has_gpu_code:
            found += _of_code(file, codes, gpu, wheel)
        found += _paths(file, codes, wheel)
    return tuple(found)


def instructions(codes: Sequence[GpuCode], gpu: str) -> Mapping[str, int]:
    """Return how many matrix instructions the code has that runs on a GPU."""
    return _seen([code for code in codes if loads(code.name, gpu)]).instructions


def _of_code(file: CompiledFile, codes: Sequence[GpuCode], gpu: str, wheel: str
             ) -> Iterator[Finding]:
    fitting = [code for code in codes if loads(code.name, gpu)]
    exact = [code for code in codes if not loads(code.name, gpu) and code.kernels]
    names = ", ".join(sorted({code.name for code in codes})) or "none at all"
    if exact:
        yield _finding(
            FindingCode.ARCH_EXACT_ONLY if not fitting else FindingCode.ARCH_EXACT_PART, wheel,
            file, f"it has code for {', '.join(sorted({code.name for code in exact}))}, which "
            f"{gpu} cannot load", "compile for the family (12.0f) or for 12.1a")
    if not fitting:
        if not exact:
            yield _finding(FindingCode.NO_GPU_CODE, wheel, file,
                           f"it has no code that {gpu} can load; it has {names}",
                           "correct the architecture list in build.environment")
        return
    seen = _seen(fitting)
    if seen.traps or seen.messages:
        first = demangle(seen.traps[0])[:NAME_SHOWN] if seen.traps else ""
        message = f'; its text says "{min(seen.messages)}"' if seen.messages else ""
        yield _finding(FindingCode.EMPTY_KERNELS, wheel, file,
                       f'{counted(len(seen.traps), "kernel")} can only trap'
                       + (f", the first: {first}" if first else "") + message,
                       "use a patch whose guard admits the family (enable_sm120_family), or "
                       "compile for 12.0f")
    missing = [name for name in file.instructions if not seen.instructions[name]]
    if missing:
        had = ", ".join(f"{number} {name}" for name, number in sorted(seen.instructions.items()))
        yield _finding(FindingCode.NO_INSTRUCTION, wheel, file,
                       f"no kernel uses {', '.join(missing)}, for which it is compiled; found: "
                       f"{had or 'no matrix instruction'}",
                       "kernels were left out in silence, or are stubs: look for \"Not building\" "
                       "in the compile's log")


def _seen(codes: Sequence[GpuCode]) -> _Seen:
    seen = _Seen()
    for code in codes:
        for kernel in code.kernels:
            seen.instructions.update(kernel.instructions)
            if kernel.trap_only:
                seen.traps.append(kernel.name)
        if code.message:
            seen.messages.add(code.message)
    return seen


def _paths(file: CompiledFile, codes: Sequence[GpuCode], wheel: str) -> Iterator[Finding]:
    data = file.place.read_bytes()
    found = {match[0] for piece in (data, *(code.cubin for code in codes))
             for match in BUILD_PATH.finditer(piece) if not HARMLESS.fullmatch(match[0])}
    if found:
        shown = ", ".join(path.decode("ascii", "replace") for path in sorted(found)[:SHOWN])
        yield _finding(FindingCode.BUILD_PATH, wheel, file,
                       f'it names {counted(len(found), "path")} of the machine that compiled it: '
                       f"{shown}", "map the folder away (-ffile-prefix-map), or strip the file")


def _finding(code: FindingCode, wheel: str, file: CompiledFile, message: str, step: str
             ) -> Finding:
    return Finding(code, f"{file.path}: {message}", step, Severity.ERROR, wheel, file.path)
