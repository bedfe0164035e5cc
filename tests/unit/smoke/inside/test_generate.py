"""Level 1b's judgement of what the engine generates, on outputs like vLLM's."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import generate
import pytest
from results import Wrong

from builder.smoke import levels

CASE = {"name": "text: capital of France", "contains": ["Paris", ["city", "town"]]}


def output(text: str, logprob: float = -0.1, finish: str = "stop") -> Any:
    return SimpleNamespace(text=text, finish_reason=finish,
                           logprobs=[{1: SimpleNamespace(logprob=logprob)}])


def test_a_right_answer_is_quoted() -> None:
    assert generate.judged(CASE, output("paris, a city")) == "'paris, a city'"


@pytest.mark.parametrize(("given", "said"), [
    (output("London, a city"), "expected 'Paris'"), (output("Paris"), r"\['city', 'town'\]"),
    (output("Paris city!!!!!"), "logits are garbage"), (output("Paris city<|x|>"), "Paris city"),
    (output("Paris city", math.nan), "log probabilities"), (output("Paris city", 0.5), "0.5"),
    (output("Paris city", -math.inf), "-inf"),
    (output("Paris city", finish="length"), "ended with 'length'"),
    (SimpleNamespace(text="Paris city", finish_reason="stop", logprobs=None), "no log prob"),
])
def test_a_wrong_one_says_why(given: Any, said: str) -> None:
    with pytest.raises(Wrong, match=said):
        generate.judged(CASE, given)


def test_alone_and_in_a_batch() -> None:
    assert generate.same(output("a"), output("a")) == "'a'"
    with pytest.raises(Wrong, match="alone 'a', in the batch 'b'"):
        generate.same(output("a"), output("b"))


def test_what_is_asked_needs_no_server() -> None:
    cases = levels.short_cases("text")
    assert len(cases) >= 8
    assert all(case.contains and case.needs == "text" and not case.stream for case in cases)
    assert levels.SHOWN[0] in {case.name for case in levels.short_cases("vision")}
