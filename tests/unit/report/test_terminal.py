"""Reports: JUnit that parses, and a verdict that never claims a GB10."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from report_records import a_bench, full_record

from builder.record.check import Check, Status
from builder.record.host_state import HostCheck, HostState
from builder.report.terminal import NOT_GB10, junit, show, verdict_line
from tests.unit.record.test_models import a_record


def test_junit_counts_each_outcome(tmp_path: Path) -> None:
    checks = (Check(check="boot", status=Status.PASS),
              Check(check="chat \x00<&>", status=Status.FAIL, detail="got \x1b[31m'x'"),
              Check(check="vision", status=Status.NOT_APPLICABLE, detail="no eyes"))
    (tmp_path / "junit.xml").write_text(junit([a_record().model_copy(update={"checks": checks})]))
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [suite.get(key) for key in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    assert [case.get("name") for case in suite.iter("testcase")] == [
        "boot", r"chat \x00<&>", "vision"]
    assert [one.get("message") for one in suite.iter("failure")] == [r"got \x1b[31m'x'"]


def test_a_run_that_was_cut_off_is_an_error_in_junit() -> None:
    record = a_record().model_copy(update={"state": "interrupted", "reason": "Ctrl-C"})
    suite = ElementTree.fromstring(junit([record]))
    assert [suite.get(key) for key in ("tests", "errors", "failures")] == ["2", "1", "0"]
    error = suite.find("testcase/error")
    assert error is not None
    assert "Ctrl-C" in (error.get("message") or "")


def test_what_was_cut_off_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    show(a_record().model_copy(update={"state": "interrupted", "reason": "the disk is full"}))
    assert "the disk is full" in capsys.readouterr().out


@pytest.mark.parametrize(("verdict", "told"), [("warning", True), ("unseen", False)])
def test_a_host_that_may_explain_a_result_has_its_line(
        verdict: Any, told: bool, capsys: pytest.CaptureFixture[str]) -> None:
    state = HostState(checks=(HostCheck(check="swap", verdict=verdict, seen="on"),))
    show(a_record().model_copy(update={"host_state": state}))
    assert ("doctor: warning: swap; 0 ok" in capsys.readouterr().out) is told


def test_token_rates_stand_below_the_place_of_measure(capsys: pytest.CaptureFixture[str]) -> None:
    show(full_record(bench=a_bench(), level="bench"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "bench cpu, measured: cpu; not verified on GB10"
    above = lines.index("token rates, measured on a CPU (two cores)")
    assert next(line for line in lines if "82 ± 2.0 %" in line) in lines[above:]
    assert lines[-1].startswith("FAILED: bench cpu in")


def test_a_verdict_elsewhere_says_so() -> None:
    assert NOT_GB10 in verdict_line(a_record())
    assert verdict_line(a_record(Status.FAIL)).startswith("FAILED")


def test_a_verdict_of_a_gb10_does_not_say_so() -> None:
    assert NOT_GB10 not in verdict_line(full_record(where="gb10"))


def test_a_flaky_check_is_a_failure_in_junit(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(junit([a_record(Status.FLAKY)]))
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert suite.get("failures") == "1"
    assert suite.find("testcase/failure") is not None
