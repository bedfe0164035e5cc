"""What the options of several commands share: paths, numbers in a span, what goes together.

What no run can use is refused, and what a run would leave unheeded, too.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from builder.errors import UsageError
from builder.files import CALLER

DIGITS = 9  # of a number on the command line; none of ours is as large
LOOKS_LIKE_A_PATH = ("/", "./", "../", "~")


def user_path(text: str) -> Path:
    """Return the path that a user means: a relative one begins where the command was typed."""
    folder = os.environ.get(CALLER)
    if not folder or text == "-" or Path(folder).absolute() == Path.cwd():
        return Path(text)
    return Path(folder) / text


def key_or_identity(text: str) -> Path:
    """Return the key that the user means; ``identity`` is a word in its place, and no file."""
    # Imported here: every command has options, and what signing needs takes longer than a plan.
    from builder.promotion.signing import IDENTITY

    return IDENTITY if text == str(IDENTITY) else user_path(text)


def user_path_text(text: str) -> str:
    """Return ``user_path`` as text, for options that are not only a path; empty stays empty."""
    return str(user_path(text)) if text else ""


def file_or_name(text: str) -> str:
    """Return the path of a file that the user means, else the text: it is the name of something."""
    return _path_or_name(text, lambda path: path.exists() and not path.is_dir())


def folder_or_name(text: str) -> str:
    """Return the path of a folder that the user means, else the text: it is the name of one."""
    return _path_or_name(text, Path.is_dir)


def _path_or_name(text: str, is_there: Callable[[Path], bool]) -> str:
    path = user_path(text)
    try:
        return str(path) if text.startswith(LOOKS_LIKE_A_PATH) or is_there(path) else text
    except (OSError, ValueError):  # too long for a file's name, or it holds a null character
        return text


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
