"""The scripts of level 1a, as far as they run here: versions, pip's complaints, results."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builder.record.check import Status
from builder.smoke import levels

sys.path.insert(0, str(Path(levels.__file__).parent / "inside"))
import answer
import look
import results

PARSE = levels.parse


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: [
        SimpleNamespace(metadata={"Name": name}, version=version)
        for name, version in versions.items()])


def test_what_is_installed_as_locked_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Torch="2.11", typing_extensions="4")
    assert look.versions({"torch": "2.11", "typing-extensions": "4"}) == "2 distributions"


@pytest.mark.parametrize(("locked", "text"), [
    ({"torch": "2.12"}, "torch: locked 2.12, installed 2.11"),
    ({"torch": "2.11", "vllm": "1"}, "vllm: locked 1, installed nothing"),
    ({}, "torch: locked nothing, installed 2.11")])
def test_another_version_a_missing_one_and_an_extra_one_fail(
        monkeypatch: pytest.MonkeyPatch, locked: dict[str, str], text: str) -> None:
    installed(monkeypatch, torch="2.11")
    with pytest.raises(results.Wrong, match=text):
        look.versions(locked)


@pytest.mark.parametrize(("said", "left_out", "clean"), [
    ("No broken requirements found.", [], True),
    ("a 1 requires b, which is not installed.", ["b"], True),
    ("a 1 requires b, which is not installed.", [], False),
    ("a 1 is not supported on this platform", [], True),
    ("a 1 has requirement b>2, but you have b 1.", ["b"], False)])
def test_pip_may_complain_of_two_things_only(monkeypatch: pytest.MonkeyPatch, said: str,
                                             left_out: list[str], *, clean: bool) -> None:
    monkeypatch.setattr(look, "_run", lambda *_, **__: said)
    if clean:
        assert look.pip_check(left_out).startswith("clean")
    else:
        with pytest.raises(results.Wrong):
            look.pip_check(left_out)


def test_a_compiler_that_does_not_work_fails_with_its_command(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "false")
    monkeypatch.setattr(look, "WORK", tmp_path)
    with pytest.raises(results.Wrong, match=r"^false "):
        look.c_stub()


@pytest.mark.parametrize(("error", "status", "detail"), [
    (None, Status.PASS, "seen"), (results.Wrong("two of them"), Status.FAIL, "two of them"),
    (KeyError("x"), Status.FAIL, "KeyError: 'x'")])
def test_each_check_is_one_line_whatever_happens(capsys: pytest.CaptureFixture[str],
                                                 error: Exception | None, status: Status,
                                                 detail: str) -> None:
    with results.check("a check") as details:
        details.append("seen")
        if error:
            raise error
    line, = (line for line in capsys.readouterr().out.splitlines() if line.startswith("@@"))
    found = PARSE(line)
    assert found is not None
    assert (found.check, found.status, found.detail) == ("a check", status, detail)


def test_an_answer_must_hold_the_fact() -> None:
    task: dict[str, Any] = {"question": "The capital?", "expect": "Paris"}
    assert answer.expect("It is Paris.", task) == "'It is Paris.'"
    with pytest.raises(results.Wrong, match="expected 'Paris', got 'Rome'"):
        answer.expect("Rome", task)


def test_the_task_lies_beside_the_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "spec.json"
    file.write_text(json.dumps({"cuda": None}))
    monkeypatch.setattr(results, "SPEC", file)
    assert results.spec() == {"cuda": None}
