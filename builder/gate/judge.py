"""The whole gate over one closure: every check in one place, and its verdict kept by its inputs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Sequence
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
from builder.gate.coverage import Covered, Fit, check_coverage, cover
from builder.gate.hygiene import check_hygiene
from builder.gate.policy import Need
from builder.gate.toolchain import check_toolchain
from builder.locking.findings import Finding, Severity
from builder.locking.lock import Lock
from builder.locking.version_checks import check_versions
from builder.matrix.cells import Cell

# Modules outside this package that a verdict depends on.
ELSEWHERE = ("bases/facts.py", "locking/findings.py", "locking/version_checks.py")
ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True)
class GateReport:
    """The verdict on one closure: findings, the worst first, and how its GPU code is covered."""

    subject: str
    gpu: str
    base: str
    wheels: int
    size: int
    findings: tuple[Finding, ...]
    covered: tuple[Covered, ...]
    seconds: float
    cached: bool = False

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Return what stops a build."""
        return tuple(one for one in self.findings if one.severity is Severity.ERROR)


@dataclass(frozen=True)
class Asked:
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


def asked_of(cell: Cell) -> Asked:
    """Return what a cell asks of its closure."""
    return Asked(
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
    found = [*check_versions(cell, lock), *metadata.check_lock(facts, lock)]
    report = judge(asked_of(cell), facts, base, found, started)
    _save(cache_root, _key(cell, lock, digest), report)
    return report


def kept_verdict(cell: Cell, lock: Lock, base_digest: str, cache_root: Path) -> GateReport | None:
    """Return the verdict on these very inputs, if it was reached before by this very gate."""
    started = time.monotonic()
    kept = _load(cache_root, _key(cell, lock, base_digest))
    if kept is None:
        return None
    return dataclasses.replace(kept, cached=True, seconds=time.monotonic() - started)


def judge(asked: Asked, wheels: Sequence[WheelFacts], base: BaseFacts | None,
          found: Sequence[Finding] = (), started: float | None = None) -> GateReport:
    """Judge any closure; ``found`` are findings that the caller has already."""
    began = time.monotonic() if started is None else started
    markers = metadata.environment(asked.python, asked.machine)
    findings = [*found, *check_hygiene(wheels),
                *metadata.check_tags(wheels, asked.python, asked.machine, asked.glibc),
                *metadata.check_requires(wheels, markers, asked.overridden, asked.left_out,
                                         whole=asked.whole)]
    findings += () if asked.whole else (metadata.check_parts(wheels, markers),)
    covered = cover(wheels, asked.gpu) if asked.gpu else ()
    findings += check_coverage(covered, asked.gpu) if asked.gpu else ()
    findings += _on_base(asked, wheels, base)
    return GateReport(
        asked.subject, asked.gpu or "", base.name if base else "", len(wheels),
        sum(wheel.unpacked for wheel in wheels),
        tuple(sorted(findings, key=lambda one: ORDER[one.severity])), covered,
        time.monotonic() - began)


def _on_base(asked: Asked, wheels: Sequence[WheelFacts], base: BaseFacts | None
             ) -> tuple[Finding, ...]:
    if base is None:
        return (Finding(
            "base-unknown", "", "the base was never seen here, so libraries, symbols and the "
            "toolchain were not judged", "gate it where the base can be had, or gate the image's "
            "cell on the base slim", Severity.WARNING),)
    target = Target(asked.python, asked.machine, asked.gpu is not None, asked.whole)
    tools = check_toolchain(wheels, base, whole=asked.whole) if asked.gpu else ()
    return (*check_abi(wheels, base, target), *tools)


def totals(report: GateReport) -> dict[str, int]:
    """Return bytes of GPU code: what runs natively, in the family, by JIT, and what never runs."""
    bytes_of = {one.value: 0 for one in Fit if one is not Fit.NONE}
    for one in report.covered:
        if one.fit is not Fit.NONE and one.need is not Need.NEVER:
            bytes_of[one.fit.value] += one.size - one.dead
    return {**bytes_of, "dead weight": sum(one.dead for one in report.covered)}


@cache
def version() -> str:
    """Return the digest of the gate itself: its code and its data, wherever they lie."""
    state = hashlib.sha256()
    here = Path(__file__).parent
    readers = here.with_name("binaries")
    for path in (*sorted(here.iterdir()), *sorted(readers.iterdir()),
                 *(here.parent / name for name in ELSEWHERE)):
        if path.suffix in (".py", ".toml"):
            state.update(path.name.encode() + b"\0" + path.read_bytes())
    return state.hexdigest()


def _key(cell: Cell, lock: Lock, base_digest: str) -> str:
    inputs = [version(), cell.intent_digest, lock.digest, base_digest]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def _place(root: Path, key: str) -> Path:
    return root / "gate" / f"{key}.json"


def _save(root: Path, key: str, report: GateReport) -> None:
    write_text(_place(root, key), json.dumps(as_json(report)) + "\n")


def _load(root: Path, key: str) -> GateReport | None:
    try:
        raw = json.loads(_place(root, key).read_text(encoding="utf-8"))
        return _from_json(raw)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not there, or not whole: it is judged again


def as_json(report: GateReport) -> dict[str, Any]:
    """Return a report as one JSON value."""
    return dataclasses.asdict(report)


def _from_json(raw: dict[str, Any]) -> GateReport:
    findings = tuple(Finding(**{**one, "severity": Severity(one["severity"])})
                     for one in raw["findings"])
    covered = tuple(Covered(**{**one, "fit": Fit(one["fit"]), "need": Need(one["need"]),
                               "archs": tuple(one["archs"])}) for one in raw["covered"])
    return GateReport(**{**raw, "findings": findings, "covered": covered})
