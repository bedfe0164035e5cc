"""Text that no sane model writes: pure functions over an answer; docs/smoke.md has the margins."""

from __future__ import annotations

import re
from collections import Counter
from math import log2

SHARE, SHARE_FROM = 0.6, 8  # of the most frequent character; from so many characters on
BITS, BITS_FROM = 2.0, 64  # entropy of single characters
DISTINCT, WORDS, WORDS_FROM = 0.35, 4, 24  # different runs of four words, of all such runs
TURNS, TURNS_LONG, UNIT = 5, 60, 200  # a text that ends in one unit, so often, so many characters
LEAKED = re.compile(r"<\|[^<>\n]{0,40}>|<[a-z_]{1,30}\|>|</?tool_call>|</?think>")


def degenerate(text: str) -> str:
    """Return what is degenerate about the text; nothing for a text that is sound."""
    if "\ufffd" in text:
        return "replacement character U+FFFD in the answer"
    if "!!!!!" in text:
        return "'!!!!!' in the answer: the logits are garbage"
    if top_share(text) > SHARE:
        return f"one character is {top_share(text):.0%} of the answer"
    if turns(text):
        return f"the answer ends in a loop of {turns(text)!r}"
    if distinct(text) < DISTINCT:
        return f"only {distinct(text):.0%} of its runs of {WORDS} words are different: a loop"
    if bits(text) < BITS:
        return f"{bits(text):.2f} bits of entropy per character"
    return ""


def leaked(text: str) -> str:
    """Return the first control tag that the parsers left in the text, or nothing."""
    found = LEAKED.search(text)
    return found.group() if found else ""


def top_share(text: str) -> float:
    """Return the share of the most frequent character, spaces aside; 0 for too short a text."""
    characters = Counter("".join(text.split()))
    count = characters.total()
    return max(characters.values()) / count if count >= SHARE_FROM else 0.0


def bits(text: str) -> float:
    """Return the entropy in bits per character; infinite for texts too short to tell."""
    if len(text) < BITS_FROM:
        return float("inf")
    return -sum(n / len(text) * log2(n / len(text)) for n in Counter(text).values())


def distinct(text: str) -> float:
    """Return the share of different runs of four words; 1 for texts too short to tell."""
    words = text.split()
    if len(words) < WORDS_FROM:
        return 1.0
    runs = [tuple(words[at:at + WORDS]) for at in range(len(words) - WORDS + 1)]
    return len(set(runs)) / len(runs)


def turns(text: str) -> str:
    """Return the unit that the text ends in again and again, or nothing.

    A unit without a letter or digit is a rule of a table, not a loop.
    """
    for size in range(1, min(UNIT, len(text) // TURNS) + 1):
        often = max(TURNS, -(-TURNS_LONG // size))
        unit = text[-size:]
        if any(character.isalnum() for character in unit) and text.endswith(unit * often):
            return unit
    return ""
