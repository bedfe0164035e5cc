"""Compare one answer with its case: text, end, counts, tool calls, reasoning."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from builder.smoke.probes.cases import (
    AnswerCase,
    Call,
    FilledCase,
    LogprobsCase,
    TwiceCase,
    battery,
)
from builder.smoke.probes.degenerate import degenerate, leaked

Judged = AnswerCase | TwiceCase | LogprobsCase | FilledCase


def judge(case: Judged, answer: dict[str, Any]) -> str:
    """Return everything that is wrong with a chat answer, or nothing."""
    return "; ".join(problems(case, answer))


def problems(case: Judged, answer: dict[str, Any]) -> Iterator[str]:
    """Yield each thing that is wrong with a chat answer."""
    choice, usage = answer["choices"][0], answer["usage"]
    message = choice["message"]
    calls = message.get("tool_calls") or []
    ends = case.ends
    if calls:
        streamed = isinstance(case, AnswerCase) and case.stream
        ends = ("tool_calls", "stop") if streamed else ("tool_calls",)
    if choice["finish_reason"] not in ends:
        yield f"it ended with {choice['finish_reason']!r}, not {ends[0]!r}"
    if not 0 < usage["completion_tokens"] <= case.max_tokens:
        yield f"usage counts {usage['completion_tokens']} tokens"
    expected = case.calls if isinstance(case, AnswerCase) else ()
    text = message.get("content") or ""
    yield from of_text(text)
    if not text and not expected:
        yield "the content is empty"
    yield from of_expectation(case, text)
    yield from of_calls(expected, calls)
    if isinstance(case, AnswerCase) and case.needs == "reasoning":
        yield from of_reasoning(case, message)


def of_text(text: str) -> Iterator[str]:
    """Yield what is wrong with the text, whatever was asked."""
    if found := degenerate(text):
        yield found
    if tag := leaked(text):
        yield f"tag {tag!r} leaks into the content"


def of_expectation(case: Judged, text: str) -> Iterator[str]:
    """Yield what an answer should hold and does not, or not in order, or should not hold."""
    folded = text.casefold()
    for wanted in case.contains:
        words = (wanted,) if isinstance(wanted, str) else wanted
        if not any(word.casefold() in folded for word in words):
            yield f"expected {' or '.join(map(repr, words))} in the answer"
    if isinstance(case, AnswerCase):
        places = [folded.find(word.casefold()) for word in case.order]
        if -1 in places or places != sorted(places):
            yield f"expected {', '.join(case.order)} in this order"
        yield from (f"refused {word!r} in the answer" for word in case.lacks if word in text)
    schema = case.options.get("response_format", {}).get("json_schema", {}).get("schema")
    if schema:
        yield from (f"structured output: {wrong}" for wrong in invalid(text, schema))


def of_reasoning(case: AnswerCase, message: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the reasoning, which servers call by one of two names."""
    thought = message.get("reasoning") or message.get("reasoning_content") or ""
    if case.thinking and not thought.strip():
        yield "reasoning was asked for and is empty"
    if not case.thinking and thought:
        yield f"reasoning was not asked for: {thought[:80]!r}"
    if tag := leaked(thought):
        yield f"tag {tag!r} leaks into the reasoning"
    if found := degenerate(thought):
        yield f"reasoning: {found}"


def of_calls(expected: Sequence[Call], calls: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with the tool calls: number, names, JSON, schema, doubled characters."""
    made = [call["function"] for call in calls]
    if [call["name"] for call in made] != [call.name for call in expected]:
        yield (f"expected calls of {[call.name for call in expected]}, "
               f"got {[call['name'] for call in made]}")
        return
    for wanted, call in zip(expected, made, strict=True):
        yield from of_arguments(wanted, call["arguments"])


def of_arguments(wanted: Call, text: str) -> Iterator[str]:
    """Yield what is wrong with the arguments of one call."""
    schema = battery().tools[wanted.name]["function"]["parameters"]
    broken = list(invalid(text, schema))
    yield from (f"arguments of {wanted.name}: {wrong}" for wrong in broken)
    if broken:
        return
    given = json.loads(text)
    for name, part in wanted.holds.items():
        if part.casefold() not in str(given.get(name, "")).casefold():
            yield f"argument {name!r} of {wanted.name} is {given.get(name)!r}, without {part!r}"
    if any("<<" in value for value in given.values() if isinstance(value, str)):
        yield f"'<<' is doubled in the arguments of {wanted.name}"
    if tag := leaked(text):
        yield f"tag {tag!r} leaks into the arguments of {wanted.name}"


def invalid(text: str, schema: dict[str, Any]) -> Iterator[str]:
    """Yield why a text is no JSON, or not of a schema."""
    try:
        given = json.loads(text)
        wrong = [error.message for error in Draft202012Validator(schema).iter_errors(given)]
    except (ValueError, RecursionError) as error:  # a model may write brackets without end
        yield f"invalid JSON ({error}): {text[:120]!r}"
        return
    yield from wrong
