"""What the models of a recipe share: text of one line, and docstrings that editors show."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from builder.model import Frozen

# Recipes are printed for people to paste from: no line may end early and no escape may hide.
# YAML and Python end a line at \x85, \u2028 and \u2029, too.
ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
Line = Annotated[str, Field(pattern=ONE_LINE)]
Date = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]


class Entry(Frozen):
    """Base of a recipe's models: the docstring of a field is its description in the schema."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True,
                              use_attribute_docstrings=True)
