"""What a recipe expects of the server's log: lines that show, lines that do not, and figures."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, model_validator

from builder.model import Pattern
from builder.recipes.entry import ONE_LINE, Entry, Line
from builder.wording import WrongValueError


class Expected(Entry):
    """What all expectations share: a regular expression, why it is expected, and where."""

    pattern: Annotated[Pattern, Field(min_length=1, pattern=ONE_LINE)]
    """A regular expression, searched in each line of the log."""
    why: Annotated[Line, Field(min_length=1)]
    """What the line proves."""
    on: Literal["any", "cuda", "cpu"] = "any"
    """Expected of these servers only; some lines belong to one backend."""

    def applies(self, *, is_cuda: bool) -> bool:
        """Say whether the line is expected of (or refused to) a CUDA or a CPU server."""
        return self.on in ("any", "cuda" if is_cuda else "cpu")


class LogLine(Expected):
    """A line of the server's log that must (or must never) show."""


class LogFigure(Expected):
    """A number that the log must state, and its bounds.

    The pattern has a group ``value``; thousands may be set apart by commas. Where several lines
    state it, as the workers of a tensor-parallel server do, each must hold.
    """

    name: Annotated[Line, Field(min_length=1)]
    """What the number is."""
    unit: Literal["GiB", "tokens", "requests"]
    at_least: FiniteFloat | None = None
    """The lowest value that passes."""
    at_most: FiniteFloat | None = None
    """The highest value that passes."""

    @model_validator(mode="after")
    def _can_be_checked(self) -> LogFigure:
        if "value" not in re.compile(self.pattern).groupindex:
            raise WrongValueError("the pattern has no group for the figure",
                                  "write (?P<value>…) around it")
        if self.at_least is None and self.at_most is None:
            raise WrongValueError("a figure without at_least or at_most checks nothing",
                                  "add one of the two")
        if None not in (self.at_least, self.at_most) and self.bounds[0] > self.bounds[1]:
            raise WrongValueError("at_least is above at_most: no figure can hold",
                                  "correct one of the two")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the lowest and the highest value that hold, both included."""
        low = float("-inf") if self.at_least is None else self.at_least
        high = float("inf") if self.at_most is None else self.at_most
        return low, high

    @property
    def allowed(self) -> str:
        """Return the bounds in words."""
        return " and ".join(f"{word} {bound:,.10g}" for word, bound in (
            ("at least", self.at_least), ("at most", self.at_most)) if bound is not None)

    def read(self, line: str) -> float | None:
        """Return the figure that a line states; None where it states none."""
        found = re.search(self.pattern, line)
        try:
            return float(found["value"].replace(",", "")) if found else None
        except ValueError:
            return None


class LogExpectation(Entry):
    """What tells a healthy boot from one that only looks so."""

    must_show: tuple[LogLine, ...] = ()
    """Lines that the log must have."""
    must_not_show: tuple[LogLine, ...] = ()
    """Lines that the log must not have."""
    figure: tuple[LogFigure, ...] = ()
    """Numbers that the log must state, within bounds."""
