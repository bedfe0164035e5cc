"""What each code of a finding means; the data is ``explain.toml``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import tomli

from builder.config_file import suggestion
from builder.errors import UsageError
from builder.model import Frozen


class Explanation(Frozen):
    """One code: the field failure that it stands for, what it means, what to do."""

    number: str = ""
    title: str
    meaning: str
    remedy: str


@cache
def explanations() -> dict[str, Explanation]:
    """Read the explanations that come with the program, by code."""
    raw = tomli.loads(Path(__file__).with_name("explain.toml").read_text(encoding="utf-8"))
    return {code: Explanation.model_validate(entry) for code, entry in raw.items()}


def explain(code: str) -> tuple[str, Explanation]:
    """Return the code that a code or an F-number means, and what it means.

    Raises UsageError for one that nobody knows.
    """
    known = explanations()
    found = next(((name, entry) for name, entry in known.items()
                  if code and code.lower() in (name, entry.number.lower())), None)
    if found is None:
        raise UsageError(f"the gate has no code {code}", where="--explain",
                         next_step=suggestion(code, list(known)))
    return found
