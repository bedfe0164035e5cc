"""What is wrong with a value, in a user's words: no word of the library, and what to write."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from matrices import small
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

import builder
from builder.errors import ConfigError, Problem
from builder.matrix.load import parse_matrix
from builder.wording import FORMS, WrongValueError, close_to, first_violation, shown, violations

THE_LIBRARYS = re.compile(r"Input should|should (have|match|be)|valid (dictionary|string|integer)|"
                          r"after validation|Field required|Value error|unable to")


def _no_tabs(text: str) -> str:
    if "\t" in text:
        raise WrongValueError("holds a tab", "write blanks")
    return text


class Part(BaseModel):
    """A table in the model below."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=r"^sm_\d{2,3}$")] = "sm_121"


class Circle(BaseModel):
    """One of two kinds of tables."""

    kind: Literal["circle"]


class Square(BaseModel):
    """The other one."""

    kind: Literal["square"]


class Whole(BaseModel):
    """One field for each kind of violation."""

    text: Annotated[str, Field(min_length=1, max_length=3), AfterValidator(_no_tabs)] = "x"
    count: Annotated[int, Field(ge=2, le=9)] = 2
    share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.5
    truth: bool = True
    words: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)] = ("x",)
    table: dict[str, str] = {}
    part: Part = Part()
    level: Literal["1a", "1b", "2"] = "2"
    number: Literal[1] = 1
    shape: Annotated[Circle | Square, Field(discriminator="kind")] = Circle(kind="circle")


CASES: list[tuple[str, Any, str, str]] = [
    ("text", 5, "must be text in quotes, and is 5", "write text in quotes"),
    ("text", "", "must not be empty", "write a text"),
    ("text", "long", "has more than 3 characters", "shorten it"),
    ("text", "\t", "holds a tab", "write blanks"),
    ("count", 0, "must be at least 2, and is 0", "name another number"),
    ("count", 10, "must be at most 9, and is 10", "name another number"),
    ("count", "x", 'must be a whole number, without quotes, and is "x"',
     "write a whole number, without quotes"),
    ("count", 2.5, "must be a whole number, without quotes, and is 2.5",
     "write a whole number, without quotes"),
    ("share", 0, "must be more than 0.0, and is 0", "name another number"),
    ("share", 1, "must be less than 1.0, and is 1", "name another number"),
    ("share", float("nan"), "must be a number that has an end, and is nan",
     "write a number that has an end"),
    ("truth", "perhaps", 'must be true or false, without quotes, and is "perhaps"',
     "write true or false, without quotes"),
    ("words", [], "must not be empty", "name at least one, or drop the key"),
    ("words", ["a", "b", "c"], "has more than 2 entries", "shorten it"),
    ("words", "x", 'must be a list, and is "x"', 'write it in brackets: ["…"]'),
    ("table", True, "must be a table, and is true",
     "write it as { key = value }, or under a heading in brackets"),
    ("part", [], "must be a table, and is an empty list",
     "write it as { key = value }, or under a heading in brackets"),
    ("part", {"name": "121"}, '"121" is not a GPU architecture', 'write it like "sm_121"'),
    ("level", "1aa", '"1aa" is not known here',
     'perhaps you meant "1a"; name one of "1a", "1b", "2"'),
    ("part", {"nam": "x"}, "unknown key", "correct or remove it"),
    ("shape", {"kind": "squar"}, '"squar" is not known here',
     'perhaps you meant "square"; name one of "circle", "square"'),
    ("shape", {}, "the key 'kind' is missing", "add it"),
    ("number", 2, "must be 1, and is 2", "write 1"),
]


@pytest.mark.parametrize(("key", "value", "what", "step"), CASES)
def test_each_violation_has_its_sentence_and_what_to_write(key: str, value: Any, what: str,
                                                           step: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate({key: value})
    (found,) = violations(caught.value)
    assert (found[0][0], *found[1:]) == (key, what, step)
    place, first = first_violation(caught.value)
    assert place.startswith(key)
    assert first == what


def test_a_missing_key_is_added() -> None:
    class Needs(BaseModel):
        key: int

    with pytest.raises(ValidationError) as caught:
        Needs.model_validate({})
    assert list(violations(caught.value)) == [(("key",), "this key is missing", "add it")]


@pytest.mark.parametrize(("value", "text"), [
    (True, "true"), ("a", '"a"'), ({}, "an empty table"), ({"a": 1}, "a table"), ([1], "a list"),
    ("a" * 100, '"' + "a" * 58 + "…"),
    pytest.param(10 ** 5000, "a number of thousands of digits", id="digits")])
def test_a_value_is_shown_as_it_was_written_and_never_at_length(value: Any, text: str) -> None:
    assert shown(value) == text


def test_what_is_near_is_offered_and_a_very_long_word_is_not_compared() -> None:
    assert close_to("cuad", ["cuda", "slim"]) == "cuda"
    assert close_to("x" * 1_000_000, ["x" * 1_000_000]) == ""


def _models() -> Iterator[type[BaseModel]]:
    """Yield every model of the program."""
    for module in pkgutil.walk_packages(builder.__path__, "builder."):
        if not re.search(r"\.inside|__main__|worker", module.name):
            importlib.import_module(module.name)
    waiting = [BaseModel]
    while waiting:
        waiting += (found := waiting.pop()).__subclasses__()
        if found.__module__.startswith("builder."):
            yield found


def _patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        yield from schema.get("patternProperties", {})
    for value in (schema.values() if isinstance(schema, dict) else
                  schema if isinstance(schema, list) else ()):
        yield from _patterns(value)


def test_every_pattern_of_a_model_is_said_in_words_and_every_example_fits() -> None:
    found = {pattern for model in _models() for pattern in _patterns(model.model_json_schema())}
    assert found <= FORMS.keys()
    assert FORMS.keys() <= found, "no model has this pattern any more"
    assert all(re.search(pattern, example) for pattern, (_, example) in FORMS.items() if example)


ODD: tuple[Any, ...] = ("", "?", 5, -1, 1.5, True, [], ["x"], {}, {"x": 1}, [5], "a" * 999)


def rich() -> dict[str, Any]:
    """Return a matrix with every kind of table."""
    raw = small()
    raw |= {"promote": {"level": "2", "hardware": ["gb10"], "keys": ["a.pub"],
                        "ignored": [{"record": "sha256:" + "a" * 64, "reason": "x"}]},
            "retention": {"days": 9},
            "snapshots": {"s": {"url": "https://x.example/{archive}/{time}"}},
            "patches": {"p": {"repository": "a/b", "pull": 1, "reason": "x"}},
            "blocked": [{"images": ["cpu"], "vllm": "0.1", "reason": "x",
                         "link": "https://x.example"}]}
    raw["images"]["tf5"] |= {"wheels": {"vllm": "auto"}, "requires": ["numpy"], "lean": True,
                             "leave_out": ["x"], "promises": ["gemma4"],
                             "exclude": [{"vllm": "0.21.0"}], "include": [{"vllm": "0.22.0"}]}
    return raw


def places(raw: Any, here: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the place of every value."""
    for key, value in (raw.items() if isinstance(raw, dict) else
                       enumerate(raw) if isinstance(raw, list) else ()):
        yield (*here, key)
        yield from places(value, (*here, key))


def refused(place: tuple[str | int, ...], value: Any) -> tuple[Problem, ...]:
    raw: Any = rich()
    inner = raw
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    try:
        parse_matrix(raw)
    except ConfigError as error:
        return error.problems
    return ()


def test_no_value_of_a_matrix_is_refused_in_the_librarys_words_or_without_what_to_do() -> None:
    parse_matrix(rich())
    count = 0
    for place in places(rich()):
        for value in ODD:
            for problem in refused(place, value):
                count += 1
                assert not THE_LIBRARYS.search(problem.what), (place, value, problem)
                assert problem.next_step, (place, value, problem)
    assert count > 500
