"""The gate's verdict for people, and as SARIF for code-scanning pages."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from builder import console
from builder.files import write_text
from builder.gate.explain import Explanation, explanations
from builder.gate.judge import GateReport, totals
from builder.locking.findings import Finding, FindingCode, Severity, counted
from builder.model import NAME_PATTERN

SEVERITY_WIDTH = 9
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
REPOSITORY = "https://github.com/sparkyard/sparkyard"


def show(report: GateReport) -> None:
    """Print the coverage of each file with GPU code, the findings, and one line of verdict."""
    if report.covered:
        rows = [(covered.fit.value, covered.file, console.size(covered.size),
                 console.size(covered.dead), covered.need.value)
                for covered in sorted(report.covered, key=lambda covered: -covered.size)]
        console.table(f"GPU code of {report.subject} on {report.gpu}",
                      ("fit", "file", "size", "never runs", "needed"), rows)
    for alike in grouped(report.findings):
        console.out(_lines(alike))
    if report.covered:
        console.out(", ".join(f"{name} {console.size(count)}"
                              for name, count in totals(report).items()))
    console.out(verdict_line(report))


def grouped(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Group findings that differ in nothing but the file, in the findings' order."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for place, finding in enumerate(findings):
        alike = (finding.severity, finding.code, finding.wheel, finding.expected,
                 finding.next_step)
        groups.setdefault(alike if finding.file else (place,), []).append(finding)
    return list(groups.values())


def _lines(alike: Sequence[Finding]) -> str:
    """Return the first finding in two lines, and for how many other files it holds.

    Not a row of a table: its sentences must not be cut, they are what the gate is for.
    """
    first, more = alike[0], len({finding.file for finding in alike}) - 1
    also = f"; and {counted(more, 'more file')}" if more else ""
    indent = " " * SEVERITY_WIDTH
    return (f"{first.severity.value:<{SEVERITY_WIDTH}}{first.code}: {first.what}{also}\n"
            f"{indent}next: {first.next_step}")


def verdict_line(report: GateReport) -> str:
    """Return the verdict, what was judged, how long that took, and what was not judged."""
    word = "FAILED" if report.errors else "PASSED"
    counts = ", ".join(counted(sum(finding.severity is severity for finding in report.findings),
                               severity.value) for severity in Severity)
    base = f" on {report.base}" if report.base not in ("", report.subject) else ""
    gaps = f"; not judged: {', '.join(report.not_judged)}" if report.not_judged else ""
    how = "from the cache" if report.cached else f"in {console.seconds(report.seconds)}"
    return (f"{word}: gate {report.subject}{base}: {counted(report.wheels, 'wheel')}, "
            f"{console.size(report.size)} unpacked, {counts}, {how}{gaps}")


def show_explanations(entries: Sequence[tuple[FindingCode, Explanation]]) -> None:
    """Print what codes mean, with the numbers of the field failures that they stand for."""
    for code, entry in entries:
        numbers = f" ({', '.join(entry.aliases)})" if entry.aliases else ""
        console.out(f"{code}{numbers}: {entry.title}\n{entry.meaning}\n{entry.remedy}")


def write_sarif(reports: Sequence[GateReport], path: Path, locks: Path | None = None) -> None:
    """Write the findings of all reports as one SARIF 2.1.0 file; see ``sarif``."""
    write_text(path, json.dumps(sarif(reports, locks), indent=1) + "\n")


def sarif(reports: Sequence[GateReport], locks: Path | None = None) -> dict[str, Any]:
    """Return a SARIF log: one run, a rule for each code that was found.

    A finding of a locked wheel points to its line of the lock, read in the folder ``locks``.
    """
    found = [(report, one) for report in reports for one in report.findings]
    codes = sorted({one.code for _, one in found})
    lines = {report.subject: _lock_lines(report, locks) for report in reports}
    rules = [{"id": code, "shortDescription": {"text": explanations()[code].title},
              "fullDescription": {"text": explanations()[code].meaning},
              "help": {"text": explanations()[code].remedy}} for code in codes]
    return {"$schema": SARIF, "version": "2.1.0", "runs": [{
        "tool": {"driver": {"name": "sparkyard gate", "informationUri": REPOSITORY,
                            "rules": rules}},
        "results": [_result(report, one, codes.index(one.code), lines[report.subject])
                    for report, one in found]}]}


def _lock_lines(report: GateReport, locks: Path | None) -> Sequence[str]:
    if locks is None:
        return ()
    try:
        return (locks / Path(_file_of(report)).name).read_text("utf-8").splitlines()
    except OSError:
        return ()  # an image or loose wheels, or a lock that is not in this folder


def _result(report: GateReport, one: Finding, rule: int, lock: Sequence[str]) -> dict[str, Any]:
    place = f"{one.wheel}/{one.file}".strip("/") or report.subject
    mark = "\0".join((report.subject, one.code, place, one.expected, one.what))
    fingerprint = hashlib.sha256(mark.encode()).hexdigest()
    line = next((number for number, text in enumerate(lock, 1)
                 if one.wheel and f'"{one.wheel}"' in text), 1)
    return {
        "ruleId": one.code, "ruleIndex": rule, "level": LEVELS[one.severity],
        "message": {"text": f"{one.what}. {one.next_step}"},
        "locations": [{"physicalLocation": {"artifactLocation": {
            "uri": _file_of(report)}, "region": {"startLine": line}}, "logicalLocations": [
                {"fullyQualifiedName": place, "kind": "resource"}]}],
        # GitHub goes by the second alone; made from the line's text, as it would be without, one
        # alert would stand for all findings of a wheel.
        "partialFingerprints": {"finding/v1": fingerprint, "primaryLocationLineHash": fingerprint},
        "properties": {"wheel": one.wheel, "file": one.file, "expected": one.expected,
                       "found": one.found, "affected": list(one.affected)}}


def _file_of(report: GateReport) -> str:
    """Return a file of the repository that a page can show: a cell's lock, else the matrix."""
    is_cell = re.fullmatch(NAME_PATTERN, report.subject)
    return f"locks/{report.subject}.toml" if is_cell else "matrix.toml"
