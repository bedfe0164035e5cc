"""What a command printed, read again: the gate's verdict, patches left out, known failures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from builder.diagnosis.catalogue import load

GATE = ("PASSED: gate", "FAILED: gate")
PATCH, LEFT_OUT = "warning: patch ", " is left out: "
NOT_CLAIMED = "  not claimed: "
ERROR = "error: "


def notable(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines that a good night shows too: of the gate, and of patches left out."""
    return tuple(line for line in lines if line.startswith(GATE)
                 or (line.startswith(PATCH) and LEFT_OUT in line))


def diagnosed(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the known failures that a smoke test named, each with its cause in one line."""
    names = {issue.name for issue in load().issues}
    return tuple(dict.fromkeys(
        line for line, below in pairwise([*lines, ""])
        if line.partition(": ")[0] in names and not below.startswith(NOT_CLAIMED)))


def last_error(lines: Sequence[str]) -> str:
    """Return the last error that a command printed, without its first word; else nothing."""
    return next((line.removeprefix(ERROR) for line in reversed(lines) if line.startswith(ERROR)),
                "")
