"""What the models of a recipe share: single lines, dates, and described fields."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from builder.recipes.entry import Date, Entry, Line


class Sample(Entry):
    """A model of one field."""

    text: Line
    """What an editor shows."""


@pytest.mark.parametrize("text", [
    "a\nb", "a\rb", "\x1b[31mred", "a\x00b", "a\tb", "a\x7fb", "a\x85b", "a\x9bb", "a\u2028b",
    "a\u2029b"])
def test_a_line_holds_no_break_and_no_escape(text: str) -> None:
    with pytest.raises(ValidationError, match="text"):
        Sample(text=text)


def test_a_line_is_stripped_and_may_hold_any_letter() -> None:
    assert Sample(text="  größer 大 ").text == "größer 大"


@pytest.mark.parametrize("text", ["2026-1-1", "26-01-01", "2026-01-01T00:00", "x2026-01-01"])
def test_a_date_has_one_form(text: str) -> None:
    TypeAdapter(Date).validate_python("2026-01-01")
    with pytest.raises(ValidationError):
        TypeAdapter(Date).validate_python(text)


def test_a_docstring_of_a_field_is_its_description_in_the_schema() -> None:
    assert Sample.model_json_schema()["properties"]["text"]["description"] == (
        "What an editor shows.")


def test_unknown_keys_are_refused_and_values_frozen() -> None:
    with pytest.raises(ValidationError, match="txet"):
        Sample.model_validate({"text": "a", "txet": "b"})
    with pytest.raises(ValidationError, match="frozen"):
        Sample(text="a").text = "b"  # type: ignore[misc]
