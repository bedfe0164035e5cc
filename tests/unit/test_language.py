"""Plain English is held where a machine can see it: in messages, help, docs and docstrings.

Each phrase was found here once and made readers stop. A new one joins the list when a reader stops
again; prose itself is reviewed by people (``python -m tests.messages`` lists every message).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.messages import all_messages

ROOT = Path(__file__).parents[2]
DOCS = (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
# What to write instead stands beside each phrase.
PHRASES = {
    r"\bheld against\b": "compared with, checked against",
    r"\b(is|are) due\b": "expected",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bnobody is here\b": "there is no terminal to ask",
    r"\bmay not speak to\b": "has no permission for",
    r"(?<!there )\bis no (wheel|record|folder|file|number|log|recipe|lock|cache)\b": "is not a",
    r"\b(each|every|per) sign\b|\bcommonest sign\b|\bbits a sign\b|\d signs\b": "character",
    r"\b(is|are) nowhere\b": "cannot be found",
    r"\blaid to\b": "blamed on",
    r"\bpassed over\b": "skipped",
    r"\bas its word\b|\bword of the\b|\b(gate|loader)'s (own )?word\b": "result",
    r"\b[ESTVNJ]#\d+": "name the source with a link",
}
F_NUMBER = re.compile(r"\bF\d{1,2}\b")
COMMAND = re.compile(
    r"(?<!/)`?(sparkyard|nox -s) (plan|lock|fetch|gate|patch|build|smoke|report|push|base)\b")
ALIASES = ROOT / "docs" / "known-failures.md"  # the one place that has the old numbers


def phrases_in(text: str) -> list[str]:
    """Return what a text should say otherwise."""
    return [f"{match[0]!r}: write {better}" for phrase, better in PHRASES.items()
            if (match := re.search(phrase, text))]


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_docs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert phrases_in(text) == []
    if path != ALIASES:
        assert F_NUMBER.findall(text) == [], "name the failure; the numbers are old"


def test_messages_and_help() -> None:
    wrong = [f"{message.file}:{message.line}: {problem}" for message in all_messages()
             for problem in phrases_in(message.text)]
    assert wrong == []


def test_messages_name_our_commands_in_one_way() -> None:
    wrong = [f"{message.file}:{message.line}: {message.text}" for message in all_messages()
             if COMMAND.search(message.text)]
    assert wrong == [], "errors.command writes them"


def test_messages_name_failures_by_their_names() -> None:
    wrong = [f"{message.file}:{message.line}" for message in all_messages()
             if F_NUMBER.search(message.text)]
    assert wrong == []


@pytest.mark.parametrize(("text", "count"), [
    ("a folder is no wheel", 1), ("the log held against the recipe", 1), ("1,500 signs each", 1),
    ("at least 16,384 is due", 1), ("a record is a document", 0),
    ("there is no recipe of that name", 0),
    ("signs that a loop shows", 0),
])
def test_the_list_finds_what_it_is_for(text: str, count: int) -> None:
    assert len(phrases_in(text)) == count
