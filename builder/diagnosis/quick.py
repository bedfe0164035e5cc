"""A search that first asks for a piece of plain text: most patterns are not in most logs.

Of hundreds of patterns few can match. Python finds plain text in a log of megabytes many times as
fast as it tries an expression, so each expression is tried only where its longest plain piece is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

OPENS = {"(": ")", "[": "]"}
SHORTEST = 4  # characters: a shorter piece stands in every log
PIECE = re.compile(r"\\(?P<escaped>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*}"
                   r"|\d{1,3}|.)|(?P<plain>[^\\()\[\]{}|*+?.^$])|(?P<special>.)", re.DOTALL)
COUNT = re.compile(r"\d*,?\d*}")


@dataclass(frozen=True)
class QuickSearch:
    """An expression and the plain text that stands in each of its matches (may be empty)."""

    expression: re.Pattern[str]
    plain: str

    @classmethod
    def of(cls, pattern: str) -> QuickSearch:
        """Prepare a pattern; ``^`` and ``$`` are a line's ends."""
        expression = re.compile(pattern, re.MULTILINE)
        changed = expression.flags & (re.IGNORECASE | re.VERBOSE)
        return cls(expression, "" if changed else plain_text(pattern))

    def first(self, text: str) -> re.Match[str] | None:
        """Return the first match in a text, or None."""
        return self.expression.search(text) if self.plain in text else None


def plain_text(pattern: str) -> str:
    """Return the longest text that every match of a pattern holds, "" where none is certain."""
    try:
        return "" if pattern.startswith("(?i") or _splits(pattern) else _longest(pattern)
    except IndexError:  # brackets of a comment, which need not be closed
        return ""


def _longest(pattern: str) -> str:
    runs, run, place = [], "", 0
    while place < len(pattern):
        match = PIECE.match(pattern, place)
        assert match is not None
        place = match.end()
        char = match["plain"] or (match["escaped"] or "a")
        if match["plain"] or (match["escaped"] and not char[0].isalnum()):
            run += char
            continue
        special = match["special"] or ""
        if special in OPENS:
            place = _end_of(pattern, place, special)
        if special in {"*", "?", "{"}:
            run = run[:-1]
            counted = COUNT.match(pattern, place)  # else it is a brace like any other character
            place = counted.end() if special == "{" and counted else place
        runs.append(run)
        run = ""
    longest = max([*runs, run], key=len)
    return longest if len(longest) >= SHORTEST else ""


def _end_of(pattern: str, place: int, opened: str) -> int:
    """Return the place after the bracket that closes what was opened before ``place``."""
    first = place + (opened == "[" and pattern[place] == "^")
    while pattern[place] != OPENS[opened] or (opened == "[" and place == first):
        char = pattern[place]
        place += 2 if char == "\\" else 1
        if opened == "(" and char in OPENS:
            place = _end_of(pattern, place, char)
    return place + 1


def _splits(pattern: str) -> bool:
    """Say whether a pattern has alternatives outside of every group."""
    place = 0
    while place < len(pattern):
        char = pattern[place]
        if char == "|":
            return True
        place += 2 if char == "\\" else 1
        if char in OPENS:
            place = _end_of(pattern, place, char)
    return False
