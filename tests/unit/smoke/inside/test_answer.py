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

TASK: dict[str, Any] = {"question": "The capital?", "expect": "Paris", "model": "/models/tiny",
                        "imports": ["json", "no_such_package"]}


class Stack:
    """A transformers that answers ``text`` after a prompt of three tokens."""

    def __init__(self, text: str) -> None:
        """Remember what is asked in ``asked``."""
        self.text, self.asked = text, list[Any]()
        self.AutoTokenizer = self.AutoModelForCausalLM = self

    def from_pretrained(self, model: str) -> Stack:
        self.asked.append(model)
        return self

    def apply_chat_template(self, messages: Any, **options: bool) -> dict[str, Any]:
        self.asked += [messages, options["add_generation_prompt"]]
        return {"input_ids": SimpleNamespace(shape=(1, 3))}

    def generate(self, **options: Any) -> list[list[str]]:
        self.asked.append(options["do_sample"])
        return [["<a>", "<b>", "<c>", self.text]]

    def decode(self, tokens: list[str], **_: bool) -> str:
        return f" {''.join(tokens)}\n"


def checks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stack: Any
           ) -> list[Check]:
    monkeypatch.setitem(sys.modules, "transformers", stack)
    monkeypatch.setattr(answer, "spec", lambda: TASK)
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
    assert answer.with_transformers(TASK) == "It is Paris."
    assert stack.asked == ["/models/tiny", "/models/tiny",
                           [{"role": "user", "content": "The capital?"}], True, False]


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
