"""Which GPU code of a closure runs on the cell's GPU, file by file.

CUDA's rules (https://docs.nvidia.com/cuda/blackwell-compatibility-guide/): machine code of
``sm_XY`` runs on devices of the same major version and at least that minor one; with ``a`` on
exactly that one; with ``f`` on its family, which for 12.x are 12.0 and 12.1. PTX of an older or the
same version is compiled by the driver at first use; with ``a`` and ``f`` under the same limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from builder.binaries.facts import Code, Form, WheelFacts
from builder.gate.policy import Need, Policy, Rule, policy
from builder.locking.findings import Finding, FindingCode, Severity


class Fit(StrEnum):
    """How GPU code fits a GPU, the best first."""

    NATIVE = "native"
    FAMILY = "same family"
    JIT = "JIT at first use"
    NONE = "cannot load"


ORDER = tuple(Fit)


@dataclass(frozen=True)
class Covered:
    """One file (or all loose cubins of a wheel): how it fits, and the bytes that can never run."""

    wheel: str
    file: str
    fit: Fit
    size: int
    dead: int
    archs: tuple[str, ...]
    need: Need
    reason: str
    link: str


def fit(code: Code, gpu: str) -> Fit:
    """Return how code of one architecture fits ``sm_121``."""
    wanted = int(gpu.removeprefix("sm_"))
    exact, family = code.arch == wanted, code.arch // 10 == wanted // 10 and code.arch <= wanted
    if code.form is Form.SASS:
        if exact:
            return Fit.NATIVE
        return Fit.FAMILY if family and code.variant != "a" else Fit.NONE
    loads = {"": code.arch <= wanted, "a": exact, "f": family}[code.variant]
    return Fit.JIT if loads else Fit.NONE


def cover(wheels: Sequence[WheelFacts], gpu: str, known: Policy | None = None
          ) -> tuple[Covered, ...]:
    """Return every file with GPU code and how it fits, wheel by wheel."""
    rules = known or policy()
    found = []
    for wheel in wheels:
        parts = [(elf.path, elf.cuda) for elf in wheel.elves if elf.cuda]
        loose = tuple(code for _, code in wheel.cubins)
        if loose:
            folder = wheel.cubins[0][0].partition("/")[0]
            parts.append((f"{folder}/*.cubin", loose))
        found += [_covered(wheel.file, path, codes, gpu, rules.rule(path, gpu, wheel.version))
                  for path, codes in parts]
    return tuple(found)


def _covered(wheel: str, path: str, codes: Iterable[Code], gpu: str, rule: Rule) -> Covered:
    fits = Counter(dict.fromkeys(ORDER, 0))
    archs: Counter[str] = Counter()
    for code in codes:
        fits[fit(code, gpu)] += code.size
        archs[code.name] += code.size
    best = next((one for one in ORDER if fits[one]), Fit.NONE)
    # The driver prefers machine code, and compiles PTX only where there is none that loads.
    dead = fits[Fit.NONE] + (fits[Fit.JIT] if best in (Fit.NATIVE, Fit.FAMILY) else 0)
    return Covered(wheel, path, best, sum(fits.values()), dead, tuple(sorted(archs)), rule.need,
                   rule.reason, rule.link)


def check_coverage(covered: Sequence[Covered], gpu: str) -> tuple[Finding, ...]:
    """Return an error for every required file without code that loads, and notes for the rest."""
    return tuple(_finding(one, gpu) for one in covered if one.fit is Fit.NONE)


def _finding(one: Covered, gpu: str) -> Finding:
    exact = [name for name in one.archs if name.endswith("a") and name[:-1].endswith(
        (gpu.removeprefix("sm_")[:2] + "0", gpu.removeprefix("sm_")))]
    code = FindingCode.ARCH_EXACT_ONLY if exact else FindingCode.NO_GPU_CODE
    severity = {Need.REQUIRED: Severity.ERROR, Need.OPTIONAL: Severity.WARNING,
                Need.NEVER: Severity.NOTE}[one.need]
    step = ("use a build for 12.1 (TORCH_CUDA_ARCH_LIST=12.1a), or add a rule with the reason to "
            "builder/gate/policy.toml" if severity is Severity.ERROR else f"see {one.link}")
    return Finding(code, f"{one.file} has no code that loads on {gpu}, only for "
                   f"{_some(one.archs)}: {one.reason}", step, severity, one.wheel, one.file,
                   expected=f"code for {gpu}", found=", ".join(one.archs))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
