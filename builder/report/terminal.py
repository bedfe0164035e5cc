"""Records for people at a terminal and for machines that read JUnit."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from xml.etree import ElementTree

from builder import console
from builder.record.bench import Bench
from builder.record.check import Status
from builder.record.models import Record
from builder.report.bench import plots
from builder.report.view import NOT_GB10, place, title, unended, verdict, worst_first
from builder.text import one_line, visible

DETAIL = 160  # characters of a check's detail in the table; the record has all of it
__all__ = ["NOT_GB10", "junit", "show", "show_all", "text", "verdict_line"]


def show(record: Record) -> None:
    """Print the verdict table, the boot phases and what a failure looks like."""
    rows = [(check.status.value.upper(), one_line(check.check, DETAIL),
             one_line(check.detail, DETAIL),
             console.seconds(check.seconds)) for check in worst_first(record.checks)]
    console.table(f"{title(record)}, {place(record)}", ("verdict", "check", "seen", "time"), rows)
    if record.phases:
        console.out("boot: " + ", ".join(f"{one_line(name, DETAIL)} {console.seconds(value)}"
                                         for name, value in record.phases.items()))
    if record.bench:
        _show_rates(record.bench)
    if record.host_state and record.host_state.complains:
        console.out(one_line(f"doctor: {record.host_state}", DETAIL))
    for failure in record.diagnosis:
        console.out(visible(str(failure)))
    if unended(record):
        console.out(one_line(unended(record), 10 * DETAIL))
    console.out(verdict_line(record))


def _show_rates(bench: Bench) -> None:
    """Print the token rates below the place where they were measured."""
    rows = [(plot.title, row.name, row.figure, plot.unit)
            for plot in plots(bench) for row in plot.rows]
    console.table(f"token rates, measured {one_line(bench.conditions.place, DETAIL)}",
                  ("what", "point", "mean and spread", "unit"), rows)


def show_all(records: Sequence[Record]) -> None:
    """Print a table for each record."""
    for number, record in enumerate(records):
        if number:
            console.out("")
        show(record)


def text(records: Sequence[Record]) -> str:
    """Return what ``show_all`` prints."""
    with redirect_stdout(io.StringIO()) as page:
        show_all(records)
    return page.getvalue()


def verdict_line(record: Record) -> str:
    """Return the last line: the verdict, the time, and that this was not on a GB10."""
    elsewhere = "" if record.where == "gb10" else f"; {NOT_GB10} (measured: {record.where})"
    what = title(record).removeprefix("smoke ").replace(", level", " level")
    return f"{verdict(record)}: {what} in {console.seconds(record.seconds)}{elsewhere}"


def junit(records: Sequence[Record]) -> str:
    """Return one suite for one record, and a document of suites for several."""
    suites = [_suite(record) for record in records]
    if len(suites) == 1:
        top = suites[0]
    else:
        top = ElementTree.Element("testsuites")
        top.extend(suites)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=True) + "\n"


def _suite(record: Record) -> ElementTree.Element:
    cut_off = unended(record)
    suite = ElementTree.Element("testsuite", {
        "name": title(record), "tests": str(len(record.checks) + bool(cut_off)),
        "errors": str(int(bool(cut_off))),
        "failures": str(_count(record, Status.FAIL) + _count(record, Status.FLAKY)),
        "time": f"{record.seconds:.2f}",
        "skipped": str(_count(record, Status.NOT_APPLICABLE)),
        "timestamp": visible(record.started)})
    ElementTree.SubElement(ElementTree.SubElement(suite, "properties"), "property",
                           {"name": "measured", "value": place(record)})
    if cut_off:  # otherwise the checks up to there would look like a run that passed
        run = ElementTree.SubElement(suite, "testcase", {"classname": "smoke", "name": "the run"})
        ElementTree.SubElement(run, "error", {"message": visible(cut_off)})
    for check in record.checks:
        case = ElementTree.SubElement(suite, "testcase", {
            "classname": visible(f"smoke.{record.cell}"), "name": visible(check.check),
            "time": f"{check.seconds:.2f}"})
        if check.status in (Status.FAIL, Status.FLAKY):
            ElementTree.SubElement(case, "failure", {"message": visible(check.detail)})
        elif check.status is Status.NOT_APPLICABLE:
            ElementTree.SubElement(case, "skipped", {"message": visible(check.detail)})
    return suite


def _count(record: Record, status: Status) -> int:
    return sum(check.status is status for check in record.checks)
