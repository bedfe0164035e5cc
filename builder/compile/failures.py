"""The first real error of a compiler's log, and what to do about it.

A log of 40,000 lines ends with the echo of its first error. Known errors are data
(``remedies.toml``); what none of them names is shown as the first lines under ``FAILED:``.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from builder.limits import CONFIG_BYTES, read_file
from builder.model import Frozen, Pattern
from builder.text import one_line

REMEDIES = Path(__file__).with_name("remedies.toml")
SHOWN = 300  # characters of a line
AROUND = 3  # lines after the first one, in which the cause may stand
UNKNOWN_STEP = "look at the log; the lines above are its first error"
QUIET = re.compile(r"\bwarning\b|-Werror|note:", re.IGNORECASE)
FAILED = re.compile(r"^(?:@?\[[^\]]*\] )?FAILED: (?:\[code=\d+\] )?(.*)")
ATTEMPT = "ninja: Entering directory"
MEMORY = "memory"


class Known(Frozen):
    """One kind of error: how its line looks, what it means, what to do."""

    name: str
    pattern: Pattern
    what: str
    step: str


class Remedies(Frozen):
    """The whole file."""

    error: tuple[Known, ...] = Field(min_length=1)


@dataclass(frozen=True)
class FirstError:
    """What stopped a build: the line (one-based), the object that failed, meaning and remedy."""

    kind: str
    what: str
    step: str
    line: int
    text: str
    target: str = ""


@functools.cache
def remedies() -> tuple[Known, ...]:
    """Return the known errors in their order."""
    raw = tomllib.loads(read_file(REMEDIES, CONFIG_BYTES, "remedies").decode("utf-8"))
    return Remedies.model_validate(raw).error


def first_error(lines: Iterable[str], known: Sequence[Known] | None = None) -> FirstError | None:
    """Return the first real error of a log; None where there is none.

    A line names a failed object; the error is looked for from there on, in the last attempt: what
    was tried again with fewer jobs does not count. A build that failed before ninja, in CMake or a
    script, has no such line.
    """
    text = [line.rstrip("\n") for line in lines]
    patterns = [(re.compile(each.pattern), each) for each in known or remedies()]
    last = max((index for index, line in enumerate(text) if line.startswith(ATTEMPT)), default=0)
    starts = [index for index, line in enumerate(text) if index >= last and FAILED.match(line)]
    target = FAILED.match(text[starts[0]])[1].strip() if starts else ""  # type: ignore[index]
    begin = starts[0] if starts else 0
    end = starts[1] if len(starts) > 1 else len(text)
    for index in range(begin, end):
        if QUIET.search(text[index]):
            continue
        for pattern, each in patterns:
            match = pattern.search(text[index])
            if match:
                return _named(each, match, index, text[index], target)
    if not starts:
        return None
    first = next((index for index in range(begin + 1, end) if text[index].strip()
                  and not _is_command(text[index])), begin)
    return FirstError("unknown", one_line(text[first], SHOWN), UNKNOWN_STEP, first + 1,
                      text[first][:SHOWN], target)


def _is_command(line: str) -> bool:
    """Say whether a line is the failed command, which ninja prints after ``FAILED:``."""
    return len(line) > SHOWN or line.startswith(("/usr/bin/", "ccache", ": &&"))


def _named(known: Known, match: re.Match[str], index: int, line: str, target: str) -> FirstError:
    name = next((value for value in match.groupdict().values() if value), "")
    return FirstError(known.name, known.what.format(name=one_line(name, SHOWN)), known.step,
                      index + 1, one_line(line, SHOWN), target)
