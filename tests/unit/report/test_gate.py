"""The gate's verdict as people and as code-scanning pages read it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import jsonschema
import pytest
from gate_facts import a_base, a_wheel

from builder.binaries.facts import Code, Damage, ElfFacts, Form
from builder.gate.explain import explain, explanations
from builder.gate.judge import GateReport, Request, as_json, judge
from builder.locking.findings import Finding, FindingCode, Severity
from builder.report import gate as report_gate

SCHEMA = json.loads((Path(__file__).parents[2] / "fixtures" / "sarif-subset.json").read_text())
HOPPER = Code(Form.SASS, 90, "a", 1, 900_000)


def a_report(subject: str = "tf5", *codes: Code) -> GateReport:
    """Return a report with errors of a file, of a wheel and of the closure, and a note."""
    damage = Damage(FindingCode.SET_ID, "bin/x", "mode 4755")
    wheel = a_wheel("vllm", requires=("absent",), damage=(damage,),
                    elves=(ElfFacts("vllm/kernels.so", "aarch64", cuda=codes or (HOPPER,)),
                           ElfFacts("vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so", "aarch64",
                                    cuda=(HOPPER,))))
    return judge(Request(subject, "3.11", "aarch64", "sm_121", "2.36"), [wheel], a_base())


@pytest.mark.parametrize("subject", ["tf5", "3 wheels", "registry:5000/team/tf5:a b"])
def test_sarif_is_valid(subject: str) -> None:
    log = report_gate.sarif([a_report(subject)])
    jsonschema.validate(log, SCHEMA)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert {"no-gpu-code", "set-id", "unmet-requirement", "toolchain-missing"} == {
        rule["id"] for rule in rules}
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    levels = {(one["ruleId"], one["level"]) for one in run["results"]}
    assert {("no-gpu-code", "error"), ("no-gpu-code", "note"), ("set-id", "error")} <= levels


def test_the_schema_can_refuse() -> None:
    log = report_gate.sarif([a_report()])
    log["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(log, SCHEMA)


def test_no_two_results_have_the_same_fingerprint() -> None:
    results = report_gate.sarif([a_report(), a_report("latest")])["runs"][0]["results"]
    marks = [json.dumps(one["partialFingerprints"]) for one in results]
    assert len(marks) == len(set(marks)) > 5


def test_a_finding_points_to_its_wheel_in_the_lock(tmp_path: Path) -> None:
    report = a_report("tf5")
    wheel = next(one.wheel for one in report.findings if one.wheel)
    (tmp_path / "tf5.toml").write_text(f'[a]\n[b]\nfile = "x-{wheel}"\nfile = "{wheel}"\n')
    for folder, expected in ((tmp_path, {1, 4}), (tmp_path / "no", {1}), (None, {1})):
        results = report_gate.sarif([report], folder)["runs"][0]["results"]
        lines = {one["locations"][0]["physicalLocation"]["region"]["startLine"] for one in results}
        assert lines == expected
        assert len({one["partialFingerprints"]["primaryLocationLineHash"]
                    for one in results}) == len(results)


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    report_gate.write_sarif([a_report()], tmp_path / "results" / "gate.sarif")
    jsonschema.validate(json.loads((tmp_path / "results" / "gate.sarif").read_text()), SCHEMA)
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["gate.sarif"]


def test_the_table_names_what_runs_and_what_is_dead_weight(
        capsys: pytest.CaptureFixture[str]) -> None:
    report_gate.show(a_report("tf5", Code(Form.SASS, 121, "", 1, 2_000_000), HOPPER))
    out = capsys.readouterr().out
    assert "native 2.0 MB" in out
    assert "dead weight 1.8 MB" in out
    assert out.splitlines()[-1].startswith("FAILED: gate tf5 on slim: 1 wheel, ")


def test_a_verdict_without_errors_says_so() -> None:
    report = judge(Request("cpu", "3.11", "aarch64", None, "2.36"), [a_wheel("a")], a_base())
    assert report_gate.verdict_line(report).startswith("PASSED: gate cpu on slim: 1 wheel, ")
    assert ", 0 errors, 0 warnings, 0 notes, in " in report_gate.verdict_line(report)
    many = judge(Request("cpu", "3.11", "aarch64", None, "2.36"), [
        a_wheel("a", requires=("absent",)), a_wheel("b")], a_base())
    assert " 2 wheels, 0 B unpacked, 1 error, 0 warnings, " in report_gate.verdict_line(many)


def a_finding(file: str, code: str = "record-differs", expected: str = "", wheel: str = "a.whl"
              ) -> Finding:
    return Finding(FindingCode(code), f"{file} is odd", "do it", Severity.ERROR, wheel, file,
                   expected)


def test_what_repeats_file_by_file_is_one_row_and_stays_whole_elsewhere(
        capsys: pytest.CaptureFixture[str]) -> None:
    report = dataclasses.replace(a_report(), covered=(), findings=tuple(
        a_finding(f"a/{number}.so") for number in range(24)))
    report_gate.show(report)
    out = capsys.readouterr().out
    assert len([line for line in out.splitlines() if "record-differs" in line]) == 1
    assert ("error    record-differs: a/0.so is odd; and 23 more files\n"
            "         next: do it\n") in out
    assert " 24 errors, " in out
    assert len(report_gate.sarif([report])["runs"][0]["results"]) == 24
    assert len(as_json(report)["findings"]) == 24


def test_findings_of_other_codes_wheels_or_expectations_keep_their_rows() -> None:
    found = [a_finding("x"), a_finding("x", "set-id"), a_finding("x", expected="1"),
             a_finding("x", wheel="b.whl"), a_finding(""), a_finding("")]
    assert [len(group) for group in report_gate.grouped(found)] == [1] * 6
    assert [len(group) for group in report_gate.grouped([*found, a_finding("y")])] == [
        2, 1, 1, 1, 1, 1]


def test_an_explanation_is_shown_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    report_gate.show_explanations(explain("F27"))
    entry = explanations()[FindingCode.TOOLCHAIN_MISSING]
    assert capsys.readouterr().out.splitlines() == [
        f"toolchain-missing (F27): {entry.title}", entry.meaning, entry.remedy]
