"""The whole verdict: every judge is asked, and it is kept until one of its inputs changes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cells_for_tests import GPU, make_cell, make_lock, make_wheel
from gate_facts import NVIDIA, TOOLS, a_base, a_wheel
from own_modules import ROOT, reached_from

from builder.binaries.facts import Code, ElfFacts, Form, WheelFacts
from builder.gate import judge as judging
from builder.gate.coverage import Fit
from builder.gate.judge import Request, as_json, judge, judge_cell, totals
from builder.locking.findings import Severity

REQUEST = Request("cell", "3.11", "aarch64", "sm_121", "2.36")
SASS = Code(Form.SASS, 121, "", 1, 100)
HOPPER = Code(Form.SASS, 90, "a", 1, 900)


def closure(*codes: Code) -> list[WheelFacts]:
    return [a_wheel("vllm", elves=(ElfFacts("vllm/kernels.so", "aarch64", cuda=codes),)),
            a_wheel("nvidia-cuda-nvcc", members=NVIDIA)]


def test_a_good_closure_passes_and_says_what_runs() -> None:
    report = judge(REQUEST, closure(SASS, HOPPER), a_base())
    assert report.findings == ()
    assert totals(report) == {Fit.NATIVE.value: 100, Fit.FAMILY.value: 0, Fit.JIT.value: 0,
                              "dead weight": 900}


def test_every_judge_is_asked_and_the_worst_comes_first() -> None:
    wheels = [*closure(HOPPER), a_wheel("needy", requires=("absent",), members=("x=1",)),
              a_wheel("other", tag="cp312-cp312-any", members=("x=2",))]
    report = judge(REQUEST, wheels, a_base(tools=TOOLS[1:]))
    assert {one.code for one in report.errors} == {
        "no-gpu-code", "unmet-requirement", "wrong-tags", "toolchain-missing"}
    assert [one.code for one in report.findings[len(report.errors):]] == ["file-collision"]


def test_without_a_base_the_rest_is_judged_and_the_gap_is_named() -> None:
    report = judge(REQUEST, closure(SASS), None)
    assert [(one.code, one.severity) for one in report.findings] == [
        ("base-unknown", Severity.WARNING)]


def test_a_closure_for_no_gpu_needs_neither_code_nor_nvcc() -> None:
    report = judge(dataclasses.replace(REQUEST, gpu=None), closure(HOPPER), a_base(tools=()))
    assert report.findings == ()
    assert report.covered == ()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often wheels are read."""
    seen: list[int] = []

    def read_wheels(*_: object) -> tuple[WheelFacts, ...]:
        seen.append(1)
        return tuple(closure(SASS))

    monkeypatch.setattr(judging, "read_wheels", read_wheels)
    return seen


def test_a_verdict_is_kept_until_an_input_changes(tmp_path: Path, read: list[int]) -> None:
    cell = make_cell(GPU)
    lock = make_lock(cell, make_wheel("vllm", "0.32.0"), make_wheel("nvidia-cuda-nvcc", "13.0"))
    first = judge_cell(cell, lock, [], a_base(), tmp_path)
    again = judge_cell(cell, lock, [], a_base(), tmp_path)
    assert (len(read), first.cached, again.cached) == (1, False, True)
    assert (again.findings, again.covered) == (first.findings, first.covered)
    other = dataclasses.replace(a_base(), digest="sha256:" + "2" * 64)
    judge_cell(cell, lock, [], other, tmp_path)
    judge_cell(cell, make_lock(cell, make_wheel("vllm", "0.32.1")), [], a_base(), tmp_path)
    assert len(read) == 3


def test_a_damaged_record_of_a_verdict_is_judged_again(tmp_path: Path, read: list[int]) -> None:
    cell = make_cell(GPU)
    lock = make_lock(cell, make_wheel("vllm", "0.32.0"))
    judge_cell(cell, lock, [], a_base(), tmp_path)
    for path in (tmp_path / "gate").iterdir():
        path.write_text(path.read_text()[:-20])
    assert not judge_cell(cell, lock, [], a_base(), tmp_path).cached
    assert len(read) == 2


def test_a_report_is_plain_json() -> None:
    plain = json.loads(json.dumps(as_json(judge(REQUEST, closure(HOPPER), a_base()))))
    assert plain["findings"][0]["code"] == "no-gpu-code"
    assert plain["covered"][0]["fit"] == "cannot load"


# Packages that the gate imports without a verdict depending on their code: they use the engine, or
# make the wheels, the cell, the lock and the base, whose digests are in the key of a verdict.
IN_THE_KEY = ("bases/", "engine/", "fetch/", "indexes/", "locking/", "matrix/", "store/")


def test_a_verdict_is_keyed_by_every_module_that_makes_it() -> None:
    covered = {path.relative_to(ROOT / "builder").as_posix() for path in judging.sources()}
    makers = reached_from("gate/judge.py", "gate/run.py", "bases/facts.py")
    # Modules of no package are tools: they name, write and show things.
    assert {name for name in makers - covered
            if "/" in name and not name.startswith(IN_THE_KEY)} == set()
    assert len(makers & covered) > 15
    assert {"locking/findings.py", "locking/version_checks.py", "bases/facts.py",
            "tarball.py"} <= covered
    for package in ("gate", "binaries"):
        folder = ROOT / "builder" / package
        files = {path.relative_to(ROOT / "builder").as_posix() for path in folder.iterdir()
                 if path.suffix in (".py", ".toml")}
        assert files <= covered


@pytest.mark.parametrize("edit", [
    lambda text: text.replace('"error"', '"note"'), lambda text: text + " ",
    lambda text: text.partition("\n")[2], lambda text: ""])
def test_an_edited_verdict_is_not_believed(
        tmp_path: Path, read: list[int], edit: Callable[[str], str]) -> None:
    cell = make_cell(GPU)
    lock = make_lock(cell, make_wheel("vllm", "0.32.0"))
    assert judge_cell(cell, lock, [], a_base(), tmp_path).errors
    (path,) = (tmp_path / "gate").iterdir()
    path.write_text(edit(path.read_text()))
    again = judge_cell(cell, lock, [], a_base(), tmp_path)
    assert (again.cached, bool(again.errors)) == (False, True)
    assert judge_cell(cell, lock, [], a_base(), tmp_path).cached


def test_without_a_base_the_last_line_has_what_was_not_judged() -> None:
    assert judge(REQUEST, closure(SASS), a_base()).not_judged == ()
    parts = dataclasses.replace(REQUEST, whole=False)
    wheels = [a_wheel("a", requires=("b", "c"))]
    assert judge(parts, wheels, None).not_judged == (
        "system libraries and the toolchain (no base)", "what 2 absent wheels may bring")
