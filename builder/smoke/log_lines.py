"""The server's log compared with its recipe: lines that must show or must not, and figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from builder.recipes.log import LogExpectation, LogFigure
from builder.record.check import Check, Status


def log_checks(expected: LogExpectation, lines: Sequence[str], *,
               is_cuda: bool = False) -> Iterator[Check]:
    """Yield one check for each expectation that applies to this kind of server."""
    for line in expected.must_show:
        if line.applies(is_cuda=is_cuda):
            yield _check(f"log shows {line.pattern!r}", good=bool(_first(line.pattern, lines)),
                         detail=line.why)
    for line in expected.must_not_show:
        if line.applies(is_cuda=is_cuda):
            unwanted = _first(line.pattern, lines)
            yield _check(f"log lacks {line.pattern!r}", good=not unwanted,
                         detail=unwanted or line.why)
    for figure in expected.figure:
        if figure.applies(is_cuda=is_cuda):
            yield figure_check(figure, lines)


def figure_check(figure: LogFigure, lines: Sequence[str]) -> Check:
    """Read a figure from the log and check its bounds; a figure that is not stated is a failure."""
    name = f"log figure: {figure.name}"
    stated = [value for value in map(figure.read, lines) if value is not None]
    if not stated:
        return _check(name, good=False, detail=f"no line states it: {figure.pattern!r}")
    low, high = figure.bounds
    wrong = [value for value in stated if not low <= value <= high]
    value = f"{(wrong or stated)[0]:,.10g} {figure.unit}"
    return _check(name, good=not wrong, detail=f"{value}, expected {figure.allowed}: {figure.why}")


def _first(pattern: str, lines: Sequence[str]) -> str:
    expression = re.compile(pattern)
    return next((line for line in lines if expression.search(line)), "")


def _check(name: str, *, good: bool, detail: str) -> Check:
    return Check(check=name, status=Status.PASS if good else Status.FAIL, detail=detail)
