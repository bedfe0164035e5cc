"""What the options of several commands share: numbers in a span, and options that go together.

What no run can use is refused, and what a run would leave unheeded, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from builder.errors import UsageError

DIGITS = 9  # of a number on the command line; none of ours is as large


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return the reader of a whole number from ``least`` to ``most``, in plain digits."""
    def read(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= DIGITS
        if not is_number or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {least} to {most}")
        return int(text)
    return read


def refuse_beside(options: argparse.Namespace, mode: str, **others: str) -> None:
    """Raise UsageError for what is given beside an option that makes the command do without it.

    ``others`` are the names in ``options``, each with the word that the user knows it by.
    """
    values = {word: getattr(options, name) for name, word in others.items()}
    given = [word for word, value in values.items()
             if value is not None and value is not False and value not in ([], "")]
    if given:
        raise UsageError(f"{', '.join(given)} would do nothing beside {mode}",
                         where="command line",
                         next_step=f"leave out {mode}, or {', '.join(given)}")
