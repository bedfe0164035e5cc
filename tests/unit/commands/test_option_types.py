"""Types of options: which numbers are read, and what is said of the others."""

from __future__ import annotations

import argparse

import pytest

from builder.commands.option_types import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("7", 7), ("007", 7), ("90", 90)])
def test_a_number_in_its_span_is_read(text: str, number: int) -> None:
    assert whole_number(0, 90)(text) == number


@pytest.mark.parametrize("text", [
    "-1", "91", "1.5", "1e1", "+1", " 1", "1_0", "x", "", "nan", "٣", "²", "9" * 5000])
def test_anything_else_is_refused_with_the_span(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number from 0 to 90"):
        whole_number(0, 90)(text)
