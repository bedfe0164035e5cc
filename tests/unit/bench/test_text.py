"""The text that prompts are cut from: the same everywhere, and no part of it twice."""

from __future__ import annotations

import hashlib

from builder.bench.text import sentences


def test_the_text_is_the_same_on_every_machine() -> None:
    """Another text is another condition: old baselines are refused when this digest changes."""
    text = sentences()
    assert hashlib.sha256(text.encode()).hexdigest().startswith("01621d5fcff4f67e")
    assert text.isascii()
    assert len(text) > 600_000


def test_its_sentences_differ_so_that_no_prefix_is_cached() -> None:
    said = [one.strip() for one in sentences(2000).split(".")]
    assert len(set(said)) > 1990
