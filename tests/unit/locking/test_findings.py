"""A finding in one line, and the vocabularies that others rely on."""

from __future__ import annotations

import re

from builder.locking.findings import Finding, FindingCode, Severity, counted


def test_a_finding_is_one_line_with_its_code_and_what_to_do() -> None:
    finding = Finding(FindingCode.CPU_TORCH, "torch 2.10.0 is a CPU build", "use another")
    assert str(finding) == "cpu-torch: torch 2.10.0 is a CPU build; use another"
    assert finding.severity is Severity.ERROR


def test_a_name_of_two_lines_stays_one() -> None:
    """A file in a wheel may be called like a line of ours, or like a command to a CI service."""
    finding = Finding(FindingCode.UNSAFE_PATH, "a\nPASSED: gate in b", "remove a\n::stop::x")
    assert str(finding) == r"unsafe-path: a\nPASSED: gate in b; remove a\n::stop::x"


def test_the_worst_severity_is_the_first() -> None:
    assert list(Severity) == [Severity.ERROR, Severity.WARNING, Severity.NOTE]


def test_codes_are_words_that_can_be_typed() -> None:
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code) for code in FindingCode)


def test_one_is_singular() -> None:
    assert (counted(0, "wheel"), counted(1, "wheel"), counted(2, "wheel")) == (
        "0 wheels", "1 wheel", "2 wheels")
