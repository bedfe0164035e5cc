"""Degenerate text: each detector fires on its own kind and stays quiet on good prose and code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.smoke.probes.degenerate import (
    BITS,
    DISTINCT,
    SHARE,
    bits,
    degenerate,
    distinct,
    leaked,
    top_share,
    turns,
)
from tests.unit.fake_openai import KNOWN

ROOT = Path(__file__).parents[4]
ANSWERS = [message["content"] for known in json.loads(KNOWN.read_text("utf-8"))["dialogues"]
           for message in known["messages"]
           if message["role"] == "assistant" and message.get("content")]
FILES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "LICENSE",
         *sorted((ROOT / "builder").glob("*.py"))]


@pytest.mark.parametrize(("text", "words"), [
    ("!" * 8, "'!!!!!'"), ("Paris\ufffd", "U+FFFD"), ("aaaaaaaaaaaa", "one character"),
    ("Well, it is so. " * 12, "loop"), ("東京は大きい。" * 12, "loop"),
    (" ".join(f"{n % 3} and then again {n % 2}" for n in range(40)), "loop"),
    ("abab ba" * 3 + "ab ba baab abba baba" * 3, "bits"),
])
def test_fires_on_the_broken(text: str, words: str) -> None:
    assert words in degenerate(text)


@pytest.mark.parametrize("text", ANSWERS)
def test_quiet_on_every_answer_of_the_tiny_model(text: str) -> None:
    assert degenerate(text) == ""
    assert leaked(text) == ""


def windows() -> list[str]:
    """Return prose, tables and code in pieces of the length of an answer."""
    texts = [path.read_text(encoding="utf-8") for path in FILES]
    return [text[at:at + 1500] for text in texts for at in range(0, len(text), 1500)]


def test_quiet_on_prose_tables_and_code_with_room_to_the_thresholds() -> None:
    good = windows()
    assert [text for text in good if top_share(text) > SHARE or turns(text)
            or distinct(text) < DISTINCT or bits(text) < BITS] == []
    assert min(distinct(text) for text in good) > DISTINCT + 0.1


@pytest.mark.parametrize("tag", ["<|tool_call>", "<tool_call|>", "<|channel>", "<turn|>", '<|"|>'])
def test_control_tags_are_seen(tag: str) -> None:
    assert leaked(f"so {tag} it is") == tag


def test_html_is_no_tag() -> None:
    assert leaked("<html><body class='x'><p>1 < 2 || a > b</p></body>") == ""
