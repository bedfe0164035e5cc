"""The scripts of a compile as what they do: a comment in them must not compile anything anew."""

from __future__ import annotations

import io
import tokenize


def without_comments(source: str) -> str:
    """Return Python source without comments, empty lines and spaces at the ends of lines."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip()) + "\n"
