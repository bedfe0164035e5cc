"""An entry of the catalogue: what it must have, which versions rule it out, what a record keeps."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from builder.diagnosis.models import SEEN_LIMIT, Diagnosis, HarmlessLine, KnownIssue

RAW: dict[str, Any] = {
    "name": "an-issue", "patterns": ["^boom$"], "cause": "a cause", "remedy": "do this",
    "until": "a release", "links": ["https://example.org/1"], "affects": {"vllm": ">=0.20,<0.21"}}
ISSUE = KnownIssue.model_validate(RAW)


@pytest.mark.parametrize(("change", "said"), [
    ({"patterns": []}, "needs a pattern or a check"), ({"patterns": [""]}, "patterns.0"),
    ({"patterns": ["("]}, "patterns.0"), ({"links": []}, "at least 1 item"),
    ({"links": ["file:///x"]}, "links.0"), ({"cause": ""}, "cause"), ({"alias": "E1"}, "alias"),
    ({"affects": {"vllm": "all"}}, "affects.vllm"), ({"pattern": "x"}, "pattern")])
def test_an_incomplete_entry_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        KnownIssue.model_validate({**RAW, **change})


def test_a_check_alone_makes_an_issue_visible() -> None:
    raw = {**RAW, "patterns": [], "checks": [{"check": "nvcc", "detail": "12"}]}
    assert KnownIssue.model_validate(raw).checks[0].check == "nvcc"


def test_the_ends_of_a_pattern_are_those_of_a_line() -> None:
    pattern = ISSUE.searches[0].expression
    assert pattern.search("before\nboom\nafter")
    assert not pattern.search("before\nboom!\nafter")


@pytest.mark.parametrize(("versions", "ruled_out"), [
    ({"vllm": "0.21.0"}, True), ({"vllm": "0.20.2"}, False), ({"vllm": "unknown"}, False),
    ({"torch": "2.9"}, False), ({}, False)])
def test_only_a_known_version_outside_the_range_rules_it_out(
        versions: dict[str, str], ruled_out: bool) -> None:
    assert bool(ISSUE.ruled_out(versions)) is ruled_out


def test_a_record_keeps_a_bounded_line_and_the_remedy() -> None:
    failure = Diagnosis(issue=ISSUE, line="x" * 1000).failure()
    assert failure.seen == "x" * SEEN_LIMIT
    assert (failure.name, failure.remedy, failure.until) == ("an-issue", "do this", "a release")
    assert failure.links == ISSUE.links


def test_one_that_is_ruled_out_is_not_claimed_and_gives_no_remedy() -> None:
    why = ISSUE.ruled_out({"vllm": "0.21.0"})
    diagnosis = Diagnosis(issue=ISSUE, line="boom", ruled_out=why)
    assert not diagnosis.claimed
    failure = diagnosis.failure()
    assert failure.ruled_out == "vllm 0.21.0 is not affected (only >=0.20,<0.21 is)"
    assert not failure.remedy
    assert not failure.links


def test_a_harmless_line_needs_a_reason_and_a_link() -> None:
    raw: dict[str, Any] = {"pattern": "WARN", "why": "always", "links": ["https://example.org/"]}
    assert HarmlessLine.model_validate(raw).expression.search("a WARNING")
    for missing in raw:
        with pytest.raises(ValidationError, match=missing):
            HarmlessLine.model_validate({key: raw[key] for key in raw if key != missing})


@pytest.mark.parametrize("pattern", [r"^\s*SASS", r"\s+File", r"(?i)^\s*x"])
def test_a_pattern_does_not_begin_with_spaces_over_lines(pattern: str) -> None:
    with pytest.raises(ValidationError, match="may begin with the ends of lines"):
        KnownIssue.model_validate({**RAW, "patterns": [pattern]})
    KnownIssue.model_validate({**RAW, "patterns": [pattern.replace(r"\s", "[ \\t]")]})
