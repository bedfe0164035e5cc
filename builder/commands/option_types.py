"""Types of options that several commands have: what no run can use is refused with the usage."""

from __future__ import annotations

import argparse
from collections.abc import Callable

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
