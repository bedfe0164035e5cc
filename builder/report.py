"""A record for people and for machines that read JUnit."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from builder import console
from builder.lock import write_text
from builder.record import Record
from builder.smoke.verdict import Status

NOT_GB10 = "not verified on GB10"
DETAIL = 160  # characters of a check's detail in the table; the record has all of it


def show(record: Record) -> None:
    """Print the verdict table, the boot phases and what a failure looks like."""
    rows = [(check.status.value.upper(), check.check, _short(check.detail),
             console.seconds(check.seconds)) for check in record.checks]
    console.table(f"smoke {record.cell}, level {record.level}, measured: {record.where}",
                  ("verdict", "check", "seen", "time"), rows)
    if record.phases:
        console.out("boot: " + ", ".join(f"{name} {console.seconds(value)}"
                                         for name, value in record.phases.items()))
    for line in record.diagnosis:
        console.out(line)
    console.out(verdict_line(record))


def verdict_line(record: Record) -> str:
    """Return the last line: the verdict, the time, and where it was not seen."""
    word = "PASSED" if record.passed else "FAILED"
    place = "" if record.where == "gb10" else f"; {NOT_GB10} (measured: {record.where})"
    return f"{word}: {record.cell} level {record.level} in {console.seconds(record.seconds)}{place}"


def write_junit(record: Record, path: Path) -> None:
    """Write the checks as a JUnit file."""
    suite = ElementTree.Element("testsuite", {
        "name": f"smoke {record.cell} level {record.level}", "tests": str(len(record.checks)),
        "failures": str(_count(record, Status.FAIL) + _count(record, Status.FLAKY)),
        "time": f"{record.seconds:.2f}",
        "skipped": str(_count(record, Status.NOT_APPLICABLE)), "timestamp": record.started})
    for check in record.checks:
        case = ElementTree.SubElement(suite, "testcase", {
            "classname": f"smoke.{record.cell}", "name": _xml(check.check),
            "time": f"{check.seconds:.2f}"})
        if check.status in (Status.FAIL, Status.FLAKY):
            ElementTree.SubElement(case, "failure", {"message": _xml(check.detail)})
        elif check.status is Status.NOT_APPLICABLE:
            ElementTree.SubElement(case, "skipped", {"message": _xml(check.detail)})
    write_text(path, ElementTree.tostring(suite, encoding="unicode", xml_declaration=True))


def _count(record: Record, status: Status) -> int:
    return sum(check.status is status for check in record.checks)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DETAIL else line[:DETAIL] + " …"


def _xml(text: str) -> str:
    """Leave out control characters, which XML cannot carry at all."""
    return "".join(sign for sign in text if sign in "\t\n" or sign >= " ")
