"""Level 1a's question through transformers: imports, the prompt as a chat, and the fact in it."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import answer
import pytest
import results

from builder.record.check import Check
from builder.smoke import levels
from builder.smoke.probes.cases import battery
from builder.smoke.probes.pictures import data_url

TASK: dict[str, Any] = {"question": "The capital?", "expect": "Paris", "model": "/models/tiny",
                        "imports": ["json", "no_such_package"]}


class Inputs(dict[str, Any]):
    """What a processor returns: pixels are cast to the numbers of the model."""

    def to(self, _: str) -> Inputs:
        return self


class Stack:
    """A transformers that answers ``text`` after a prompt of three tokens."""

    def __init__(self, text: str) -> None:
        """Remember what is asked in ``asked``."""
        self.text, self.asked = text, list[Any]()
        self.AutoTokenizer = self.AutoModelForCausalLM = self.AutoProcessor = self
        self.AutoModelForImageTextToText = self
        self.dtype = "bfloat16"

    def from_pretrained(self, model: str) -> Stack:
        self.asked.append(model)
        return self

    def apply_chat_template(self, messages: Any, **options: bool) -> dict[str, Any]:
        self.asked += [messages, options["add_generation_prompt"]]
        return Inputs(input_ids=SimpleNamespace(shape=(1, 3)))

    def generate(self, **options: Any) -> list[list[str]]:
        self.asked.append(options["do_sample"])
        return [["<a>", "<b>", "<c>", self.text]]

    def decode(self, tokens: list[str], **_: bool) -> str:
        return f" {''.join(tokens)}\n"


def checks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stack: Any,
           task: dict[str, Any] = TASK) -> list[Check]:
    monkeypatch.setitem(sys.modules, "transformers", stack)
    reader = SimpleNamespace(open=lambda file: file.read())
    monkeypatch.setitem(sys.modules, "PIL", SimpleNamespace(Image=reader))
    monkeypatch.setattr(answer, "spec", lambda: task)
    answer.main()
    return [check for line in capsys.readouterr().out.splitlines() if (check := levels.parse(line))]


def test_an_answer_must_hold_the_fact() -> None:
    assert answer.expect("It is Paris.", TASK) == "'It is Paris.'"
    with pytest.raises(results.Wrong, match="expected 'Paris', got 'Rome'"):
        answer.expect("Rome", TASK)


def test_the_question_is_a_chat_and_only_the_new_tokens_are_the_answer(
        monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack("It is Paris.")
    monkeypatch.setitem(sys.modules, "transformers", stack)
    assert answer.with_transformers(TASK, stack) == "It is Paris."
    assert stack.asked == ["/models/tiny", [{"role": "user", "content": "The capital?"}], True,
                           False]


PICTURE = {"question": "Which colour?", "expect": ["red"], "urls": [data_url(
    battery().pictures["red circle"])]}


def test_words_have_to_come_in_their_order() -> None:
    asked = {"question": "Which?", "expect": ["red", "circle", "blue", "circle"]}
    said = "A red circle, a blue circle."
    assert answer.expect_all(said, asked) == repr(said)
    for wrong in ("A blue circle, a red circle.", "A red circle and a blue one.", ""):
        with pytest.raises(results.Wrong, match="red, circle, blue, circle in this order, got"):
            answer.expect_all(wrong, asked)


def test_a_model_that_sees_is_shown_a_picture(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stack = Stack("Paris is red.")
    found = checks(monkeypatch, capsys, stack, {**TASK, "pictures": [PICTURE]})[-1]
    assert (found.check, found.status) == ("Gemma 4 sees (transformers)", "pass")
    shown, asked = stack.asked[-3][0]["content"]
    assert (shown["image"][1:4], asked["text"]) == (b"PNG", "Which colour?")


def test_a_model_that_sees_something_else_is_red_by_name(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    *_, answered, seen = checks(monkeypatch, capsys, Stack("Paris is blue."),
                                {**TASK, "pictures": [PICTURE]})
    assert (answered.status, seen.status) == ("pass", "fail")
    assert "expected red in this order, got 'Paris is blue.'" in seen.detail


def test_a_model_that_cannot_be_loaded_is_one_failure(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    *_, found = checks(monkeypatch, capsys, SimpleNamespace(), {**TASK, "pictures": [PICTURE]})
    assert (found.check, found.status) == ("Gemma 4 answers (transformers)", "fail")


def test_an_import_that_fails_is_its_own_failure_and_the_rest_is_still_asked(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, asked = checks(monkeypatch, capsys, Stack("Paris"))
    assert (good.check, good.status) == ("import json", "pass")
    assert (bad.check, bad.status) == ("import no_such_package", "fail")
    assert "ModuleNotFoundError" in bad.detail
    assert (asked.status, asked.detail) == ("pass", "'Paris'")


def test_a_wrong_answer_fails_with_both(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "expected 'Paris', got 'Rome'" in checks(monkeypatch, capsys, Stack("Rome"))[-1].detail
