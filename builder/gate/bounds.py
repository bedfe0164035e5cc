"""Requirements without an upper bound, of packages whose releases differ in what they compile.

What is locked may be years newer than what the wheel was built and tested with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from builder import specifiers
from builder.binaries.facts import WheelFacts
from builder.gate.metadata import required
from builder.gate.rules import Bounded, Rules, rules
from builder.locking.findings import Finding, FindingCode, Severity

FROM = (">=", ">")
UP_TO = ("<", "<=", "==", "===", "~=")


def check_bounds(wheels: Sequence[WheelFacts], markers: Mapping[str, str],
                 known: Rules | None = None) -> tuple[Finding, ...]:
    """Return the packages of ``rules.toml`` that nothing holds to the release they were made for.

    One requirement with an upper bound, of any wheel, is enough.
    """
    given = {wheel.name: wheel for wheel in wheels}
    asked: dict[str, list[tuple[WheelFacts, Requirement]]] = {}
    for wheel, requirement in required(wheels, markers):
        asked.setdefault(canonicalize_name(requirement.name), []).append((wheel, requirement))
    return tuple(finding for rule in (known or rules()).bounded if rule.wheel in given
                 for finding in _unbounded(rule, given[rule.wheel], asked.get(rule.wheel, ())))


def _unbounded(rule: Bounded, got: WheelFacts, asked: Sequence[tuple[WheelFacts, Requirement]]
               ) -> Iterator[Finding]:
    if any(one.operator in UP_TO for _, requirement in asked for one in requirement.specifier):
        return
    lowest = [(Version(one.version), wheel, requirement) for wheel, requirement in asked
              for one in requirement.specifier
              if one.operator in FROM and specifiers.is_exact(one.version)]
    if not lowest:
        return
    since, wheel, requirement = min(lowest, key=_version)  # made for the oldest release
    if Version(got.version).release[:2] <= since.release[:2]:
        return
    yield Finding(
        FindingCode.UNBOUNDED, f"{wheel.name} {wheel.version} requires {requirement} without an "
        f"upper bound, and {got.name} {got.version} is locked: {rule.reason}",
        f'to keep to what was tested, add "{got.name}<{got.version}" or a narrower bound to the '
        "image's requires in matrix.toml; the smoke test shows whether this one works",
        Severity.WARNING, got.file, expected=f"{got.name} {since.release[0]}."
        f"{(*since.release, 0)[1]}.*", found=f"{got.name} {got.version}")


def _version(row: tuple[Version, WheelFacts, Requirement]) -> Version:
    return row[0]
