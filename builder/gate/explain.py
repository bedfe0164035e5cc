"""What each code of a finding means, and which field failures it stands for (``explain.toml``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import tomli

from builder.config_file import suggestion
from builder.errors import UsageError
from builder.locking.findings import FindingCode
from builder.model import Frozen


class Explanation(Frozen):
    """One code: ``aliases`` are the numbers of field failures (``F4``) that it stands for."""

    aliases: tuple[str, ...] = ()
    title: str
    meaning: str
    remedy: str


@cache
def explanations() -> dict[FindingCode, Explanation]:
    """Read the explanations that come with the program, by code."""
    raw = tomli.loads(Path(__file__).with_name("explain.toml").read_text(encoding="utf-8"))
    return {FindingCode(code): Explanation.model_validate(entry) for code, entry in raw.items()}


def explain(text: str) -> Sequence[tuple[FindingCode, Explanation]]:
    """Return the code called ``text``, or all codes that an F-number stands for.

    Raises UsageError for a text that is neither.
    """
    known = explanations()
    matches = [(code, entry) for code, entry in known.items()
               if text.lower() == code or text.upper() in entry.aliases]
    if not matches:
        raise UsageError(f'the gate has no code "{text}"', where="--explain",
                         next_step=suggestion(text, [str(code) for code in known]))
    return matches
