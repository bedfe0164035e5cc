"""The whole gate over one closure: every check in one place; its verdict is kept by its inputs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from builder.binaries.facts import BaseFacts, WheelFacts
from builder.binaries.wheel_facts import read_wheels
from builder.files import write_text
from builder.gate import metadata
from builder.gate.abi import Target, check_abi
from builder.gate.bounds import check_bounds
from builder.gate.coverage import Covered, Fit, check_coverage, cover
from builder.gate.glibc import check_glibc
from builder.gate.hygiene import check_hygiene
from builder.gate.jit import check_jit
from builder.gate.kernels import check_kernels
from builder.gate.policy import Need
from builder.gate.toolchain import check_toolchain
from builder.locking.findings import Finding, FindingCode, Severity, counted
from builder.locking.lock import Lock
from builder.locking.version_checks import check_versions
from builder.matrix.cells import Cell

# What a verdict depends on beside this package and the readers: paths below ``builder/``.
ELSEWHERE = ("bases/facts.py", "locking/findings.py", "locking/version_checks.py", "tarball.py")
ORDER = tuple(Severity)


@dataclass(frozen=True)
class GateReport:
    """The verdict on one closure: findings, the worst first, and how its GPU code is covered.

    ``not_judged`` names what the gate could not look at, in words for the last line.
    """

    subject: str
    gpu: str
    base: str
    wheels: int
    size: int
    findings: tuple[Finding, ...]
    covered: tuple[Covered, ...]
    seconds: float
    cached: bool = False
    not_judged: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Return what stops a build."""
        return tuple(finding for finding in self.findings
                     if finding.severity is Severity.ERROR)


@dataclass(frozen=True)
class Request:
    """What a closure is judged for; ``gpu`` is None where none is meant.

    Of wheels that are not a ``whole`` closure, only what they say themselves is judged.
    """

    subject: str
    python: str
    machine: str
    gpu: str | None
    glibc: str
    overridden: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    whole: bool = True


def request_of(cell: Cell) -> Request:
    """Return what a cell's closure is judged for."""
    return Request(
        cell.id, cell.base.python, cell.machine, cell.gpu, cell.base.glibc,
        frozenset(canonicalize_name(Requirement(text).name) for text in cell.overrides),
        frozenset(canonicalize_name(name) for name in cell.leave_out))


def judge_cell(cell: Cell, lock: Lock, wheels: Sequence[tuple[Path, str]],
               base: BaseFacts | None, cache_root: Path,
               on_progress: Callable[[float], None] | None = None) -> GateReport:
    """Judge a cell's locked wheels on its base, from the cache where nothing has changed."""
    started, digest = time.monotonic(), base.digest if base else ""
    kept = kept_verdict(cell, lock, digest, cache_root)
    if kept is not None:
        return kept
    facts = read_wheels(wheels, cache_root, on_progress)
    findings = [*check_versions(cell, lock), *metadata.check_lock(facts, lock)]
    report = judge(request_of(cell), facts, base, findings, started)
    _save(cache_root, _key(cell, lock, digest), report)
    return report


def kept_verdict(cell: Cell, lock: Lock, base_digest: str, cache_root: Path) -> GateReport | None:
    """Return the verdict on exactly these inputs, if this very gate reached it before."""
    started = time.monotonic()
    kept = _load(cache_root, _key(cell, lock, base_digest))
    if kept is None:
        return None
    return dataclasses.replace(kept, cached=True, seconds=time.monotonic() - started)


def judge(request: Request, wheels: Sequence[WheelFacts], base: BaseFacts | None,
          known: Sequence[Finding] = (), started: float | None = None) -> GateReport:
    """Judge any closure; ``known`` are findings that the caller has already."""
    start = time.monotonic() if started is None else started
    markers = metadata.environment(request.python, request.machine)
    findings = [*known, *check_hygiene(wheels), *check_glibc(wheels),
                *metadata.check_tags(wheels, request.python, request.machine, request.glibc),
                *metadata.check_requires(wheels, markers, request.overridden, request.left_out,
                                         whole=request.whole)]
    findings += () if request.whole else (metadata.check_parts(wheels, markers),)
    covered = cover(wheels, request.gpu) if request.gpu else ()
    findings += _on_gpu(wheels, covered, base, request.gpu, markers) if request.gpu else ()
    findings += _on_base(request, wheels, base)
    return GateReport(
        request.subject, request.gpu or "", base.name if base else "", len(wheels),
        sum(wheel.unpacked for wheel in wheels),
        tuple(sorted(findings, key=lambda finding: ORDER.index(finding.severity))), covered,
        time.monotonic() - start, not_judged=tuple(_not_judged(request, wheels, base)))


def _on_gpu(wheels: Sequence[WheelFacts], covered: Sequence[Covered], base: BaseFacts | None,
            gpu: str, markers: Mapping[str, str]) -> tuple[Finding, ...]:
    return (*check_coverage(covered, gpu), *check_kernels(wheels, gpu),
            *check_jit(wheels, gpu, base), *check_bounds(wheels, markers))


def _on_base(request: Request, wheels: Sequence[WheelFacts], base: BaseFacts | None
             ) -> tuple[Finding, ...]:
    target = Target(request.python, request.machine, request.gpu is not None, request.whole,
                    has_base=base is not None)
    findings = check_abi(wheels, base, target)
    if base is None:
        return (*findings, Finding(
            FindingCode.BASE_UNKNOWN, "the base is not known: system libraries, symbol versions "
            "and the toolchain are not judged, and of the wheels' own symbols only those whose "
            "wheel is known", "name a base with --base, or run the gate where the cell's base can "
            "be pulled", Severity.WARNING))
    tools = check_toolchain(wheels, base, whole=request.whole) if request.gpu else ()
    return (*findings, *tools)


def _not_judged(request: Request, wheels: Sequence[WheelFacts], base: BaseFacts | None
                ) -> Iterator[str]:
    if base is None:
        yield "system libraries and the toolchain (no base)"
    if not request.whole:
        names = metadata.absent(
            wheels, metadata.environment(request.python, request.machine))
        yield f"what {counted(len(names), 'absent wheel')} may bring"


def totals(report: GateReport) -> dict[str, int]:
    """Return bytes of GPU code: what runs natively, in the family, by JIT, and what never runs."""
    bytes_of = {fit.value: 0 for fit in Fit if fit is not Fit.NONE}
    for covered in report.covered:
        if covered.fit is not Fit.NONE and covered.need is not Need.NEVER:
            bytes_of[covered.fit.value] += covered.size - covered.dead
    return {**bytes_of, "dead weight": sum(covered.dead for covered in report.covered)}


@cache
def version() -> str:
    """Return the digest of the gate itself: its code and its data, wherever they are."""
    state = hashlib.sha256()
    for path in sources():
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    return state.hexdigest()


def sources() -> Sequence[Path]:
    """Return every file of ours that a verdict depends on."""
    gate = Path(__file__).parent
    binaries, builder = gate.with_name("binaries"), gate.parent
    return [path for path in (*sorted(gate.iterdir()), *sorted(binaries.iterdir()),
                              *(builder / name for name in ELSEWHERE))
            if path.suffix in (".py", ".toml")]


def _key(cell: Cell, lock: Lock, base_digest: str) -> str:
    inputs = [version(), cell.intent_digest, lock.digest, base_digest]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def _place(root: Path, key: str) -> Path:
    return root / "gate" / f"{key}.json"


def _save(root: Path, key: str, report: GateReport) -> None:
    """Keep a verdict: a line with the sha256 of the rest, then JSON."""
    body = json.dumps(as_json(report)) + "\n"
    write_text(_place(root, key), f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}")


def _load(root: Path, key: str) -> GateReport | None:
    """Return a kept verdict; None where there is none, or where it is not what was written."""
    try:
        digest, _, body = _place(root, key).read_bytes().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return None
        return _from_json(json.loads(body))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def as_json(report: GateReport) -> dict[str, Any]:
    """Return a report as one JSON value."""
    return dataclasses.asdict(report)


def _from_json(raw: dict[str, Any]) -> GateReport:
    findings = tuple(Finding(**{**plain, "code": FindingCode(plain["code"]),
                                "severity": Severity(plain["severity"]),
                                "affected": tuple(plain["affected"])})
                     for plain in raw["findings"])
    covered = tuple(Covered(**{**plain, "fit": Fit(plain["fit"]), "need": Need(plain["need"]),
                               "archs": tuple(plain["archs"])}) for plain in raw["covered"])
    return GateReport(**{**raw, "findings": findings, "covered": covered,
                         "not_judged": tuple(raw["not_judged"])})
