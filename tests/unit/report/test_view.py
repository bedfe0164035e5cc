"""What every report says about a record: verdict, place, facts, order and timeline."""

from __future__ import annotations

from itertools import pairwise

import pytest
from report_records import full_record

from builder.record.check import Check, Status
from builder.record.host_state import HostCheck, HostState
from builder.report.view import (
    counts,
    facts,
    family,
    place,
    summary,
    timeline,
    title,
    unended,
    verdict,
    when,
    worst_first,
)
from tests.unit.record.test_models import a_record


@pytest.mark.parametrize(("status", "state", "word"), [
    (Status.PASS, "finished", "PASSED"), (Status.FAIL, "finished", "FAILED"),
    (Status.FLAKY, "finished", "FAILED"), (Status.PASS, "running", "RUNNING"),
    (Status.PASS, "interrupted", "INTERRUPTED")])
def test_the_verdict_is_that_of_a_run_which_ended(status: Status, state: str, word: str) -> None:
    record = a_record(status).model_copy(update={"state": state})
    assert verdict(record) == word
    assert bool(unended(record)) is (state != "finished")


def test_the_place_says_what_it_is_not() -> None:
    assert place(full_record(where="gb10")) == "measured: gb10"
    for where in ("cpu", "gpu", "emulated", "unseen"):
        assert place(full_record(where=where)) == f"measured: {where}; not verified on GB10"


def test_a_title_names_what_was_run() -> None:
    assert title(a_record()) == "smoke cpu, level 2"
    assert title(a_record(level="bench")) == "bench cpu"
    assert when("2026-01-02T03:04:05Z") == "2026-01-02 03:04:05 UTC"


def test_the_doctors_verdicts_are_one_line() -> None:
    state = HostState(checks=(HostCheck(check="swap", verdict="warning", seen="on"),
                              HostCheck(check="docker", verdict="ok", seen="28")))
    record = a_record().model_copy(update={"host_state": state})
    assert dict(facts(record))["doctor"] == "warning: swap; 1 ok"
    assert "doctor" not in dict(facts(a_record()))


def test_facts_name_what_identifies_the_run_and_nothing_empty() -> None:
    shown = dict(facts(full_record(where="gb10")))
    assert shown["lock"] == "sha256:2"
    assert shown["vllm"] == "0.32.0"
    assert shown["GPU"] == "NVIDIA GB10, 12.1, 580"
    assert shown["record"].startswith("sha256:")
    assert "image digest" not in shown
    assert all(shown.values())


@pytest.mark.parametrize(("labelled", "told"), [
    ("sha256:9", "another lock: sha256:9"), ("sha256:2", None), (None, None)])
def test_an_image_of_another_lock_is_named(labelled: str | None, told: str | None) -> None:
    labels = {"org.sparkyard.lock": labelled} if labelled else {}
    assert dict(facts(full_record(labels=labels))).get("image was built from") == told


def test_the_worst_stands_first_and_the_rest_keeps_its_order() -> None:
    checks = [Check(check=str(number), status=status) for number, status in enumerate(
        (Status.NOT_APPLICABLE, Status.PASS, Status.FLAKY, Status.FAIL, Status.PASS))]
    assert [check.check for check in worst_first(checks)] == ["3", "2", "0", "1", "4"]


def test_counts_are_said_worst_first() -> None:
    assert summary(full_record()) == "1 fail, 1 flaky, 2 pass, 1 not applicable"
    assert summary(full_record(checks=())) == "no checks"
    assert counts(a_record())[Status.FAIL] == 0


@pytest.mark.parametrize(("check", "parts"), [
    ("tools: single", ("tools", "single")), ("boot", ("", "boot")),
    ("log shows the kernel", ("log", "shows the kernel"))])
def test_a_check_belongs_to_a_family(check: str, parts: tuple[str, str]) -> None:
    assert family(check) == parts


def test_the_timeline_fills_the_run_without_gaps() -> None:
    bars = timeline(full_record())
    assert [bar.name for bar in bars[:2]] == ["start", "weights"]
    assert bars[-1].end == pytest.approx(60.0)
    assert all(later.start == pytest.approx(earlier.end)
               for earlier, later in pairwise(bars))
    assert "boot" not in [bar.name for bar in bars]  # it is there by its phases
