"""What a recipe expects of a log: bounds that can fail, and figures as logs write them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from builder.recipes.log import LogFigure, LogLine

FIGURE: dict[str, Any] = {"name": "KV cache", "pattern": r"size: (?P<value>[\d,.e+]+)",
                          "unit": "tokens", "at_least": 10, "why": "x"}


@pytest.mark.parametrize(("changes", "words"), [
    ({"at_least": float("inf")}, "finite"), ({"at_least": float("nan")}, "finite"),
    ({"at_most": float("-inf")}, "finite"), ({"at_least": None}, "checks nothing"),
    ({"at_most": 9}, "no figure can hold"), ({"pattern": "size: (.*)"}, "no group for the figure"),
    ({"pattern": ""}, "at least 1"),
    ({"pattern": "(?P<value>a\n)"}, "match pattern"), ({"why": "a\nb"}, "match pattern")])
def test_a_figure_that_could_not_fail_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        LogFigure.model_validate({**FIGURE, **changes})


def test_a_figure_is_read_and_its_bounds_are_said() -> None:
    figure = LogFigure.model_validate({**FIGURE, "at_most": 671088})
    assert figure.read("INFO size: 671,088 tokens") == 671088
    assert figure.read("INFO nothing") is None
    assert figure.read("INFO size: e,e") is None
    assert figure.bounds == (10, 671088)
    assert figure.allowed == "at least 10 and at most 671,088"


@pytest.mark.parametrize(("on", "is_cuda", "applies"), [
    ("any", True, True), ("any", False, True), ("cuda", True, True), ("cuda", False, False),
    ("cpu", False, True), ("cpu", True, False)])
def test_a_line_may_belong_to_one_backend(on: str, is_cuda: bool, applies: bool) -> None:
    line = LogLine.model_validate({"pattern": "x", "why": "y", "on": on})
    assert line.applies(is_cuda=is_cuda) is applies
