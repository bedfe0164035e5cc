"""What the architectures of a whole file do not show: kernels that are missing, and empty ones.

One source file of a library becomes one region of its GPU code. Where a region has code for
sm_120a alone, its kernels are missing on 12.1, although the library as a whole loads. And code for
12.1 may consist of kernels that only print that they do not support it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from builder.binaries.facts import Code, ElfFacts, Form, Stub, WheelFacts
from builder.gate.abi import demangle
from builder.gate.coverage import Fit, fit
from builder.gate.policy import Need, Policy, Rule, policy
from builder.locking.findings import Finding, FindingCode, Severity, counted

SEVERITY = {Need.REQUIRED: Severity.ERROR, Need.OPTIONAL: Severity.WARNING,
            Need.NEVER: Severity.NOTE}
_NAME = re.compile(r"(sm|compute)_(\d+)([af]?)")
NAME_SHOWN = 100


def check_kernels(wheels: Sequence[WheelFacts], gpu: str, known: Policy | None = None
                  ) -> tuple[Finding, ...]:
    """Return the kernels that are missing on a GPU, or empty, in files that load there."""
    rules = known or policy()
    return tuple(finding for wheel in wheels for elf in wheel.elves
                 for finding in (*_missing(wheel, elf, gpu, rules),
                                 *_empty(wheel, elf, gpu, rules)))


def loads(name: str, gpu: str) -> bool:
    """Say whether code called ``sm_120a`` or ``compute_90`` loads on a GPU."""
    form, arch, variant = _NAME.fullmatch(name).groups()  # type: ignore[union-attr]
    return fit(Code(Form.SASS if form == "sm" else Form.PTX, int(arch), variant, 1, 0),
               gpu) is not Fit.NONE


def _missing(wheel: WheelFacts, elf: ElfFacts, gpu: str, rules: Policy) -> Iterator[Finding]:
    """Find regions for a sibling of the GPU alone, in a file whose other regions load."""
    family = gpu.removeprefix("sm_")[:2]
    lost = [region for region in elf.regions
            if not any(loads(name, gpu) for name in region.codes)
            and any(_is_sibling(name, family) for name in region.codes)]
    if not lost or not any(loads(code.name, gpu) for code in elf.cuda):
        return  # a file of which nothing loads is found as a whole
    rule = rules.rule(elf.path, gpu, wheel.version)
    codes = sorted({name for region in lost for name in region.codes})
    number = sum(region.count for region in lost)
    yield Finding(
        FindingCode.ARCH_EXACT_PART,
        f"{elf.path} loads on {gpu}, but {number} of its {sum(one.count for one in elf.regions)} "
        f"parts have code for {', '.join(codes)} only: their kernels are missing: {rule.reason}",
        _step(rule, "build it for 12.1a or the family 12.0f"), SEVERITY[rule.need], wheel.file,
        elf.path, expected=f"code for {gpu}", found=", ".join(codes))


def _is_sibling(name: str, family: str) -> bool:
    match = _NAME.fullmatch(name)
    return bool(match and match[2].startswith(family) and match[3] == "a")


def _empty(wheel: WheelFacts, elf: ElfFacts, gpu: str, rules: Policy) -> Iterator[Finding]:
    """Find stubs, those that one rule is for as one finding."""
    by_rule: dict[Rule, list[Stub]] = {}
    for stub in elf.stubs:
        if loads(stub.code, gpu):
            rule = rules.stub(elf.path, stub.kernel, gpu, wheel.version)
            by_rule.setdefault(rule, []).append(stub)
    for rule, stubs in by_rule.items():
        number = sum(stub.kernels for stub in stubs)
        codes = ", ".join(sorted({stub.code for stub in stubs}))
        yield Finding(
            FindingCode.EMPTY_KERNELS,
            f'{elf.path} has {counted(number, "kernel")} for {codes} that only print '
            f'"{stubs[0].message}" and stop, the first: '
            f"{demangle(stubs[0].kernel)[:NAME_SHOWN]}: {rule.reason}",
            _step(rule, "use a build whose guard admits the family (enable_sm120_family), or one "
                  "for 12.0f"), SEVERITY[rule.need], wheel.file, elf.path,
            expected=f"kernels that run on {gpu}", found=stubs[0].message)


def _step(rule: Rule, step: str) -> str:
    return (f"{step}, or add a rule with the reason to builder/gate/policy.toml"
            if rule.need is Need.REQUIRED else f"see {rule.link}")
