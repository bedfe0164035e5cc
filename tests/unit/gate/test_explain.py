"""Every code is explained and used, and each F-number finds its codes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from builder.errors import UsageError
from builder.gate.explain import explain, explanations
from builder.locking.findings import FindingCode

ROOT = Path(__file__).parents[3]
SOURCES = (*sorted((ROOT / "builder" / "gate").glob("*.py")),
           *sorted((ROOT / "builder" / "binaries").glob("*.py")),
           ROOT / "builder" / "locking" / "version_checks.py")
MAKERS = ("Finding", "_finding", "Damage")
PAGE = ROOT / "docs" / "known-failures.md"


def nodes() -> list[ast.AST]:
    return [node for path in SOURCES for node in ast.walk(ast.parse(path.read_text("utf-8")))]


def test_every_code_is_explained_and_nothing_else() -> None:
    assert set(explanations()) == set(FindingCode)


def test_every_code_is_made_somewhere() -> None:
    used = {node.attr for node in nodes() if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name) and node.value.id == "FindingCode"}
    assert used == {code.name for code in FindingCode}


def test_no_finding_is_made_with_a_code_of_its_own() -> None:
    """The first argument of each is a member of FindingCode, or a variable that has one."""
    made = [node for node in nodes() if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name) and node.func.id in MAKERS]
    assert len(made) > 30
    assert not [ast.unparse(node) for node in made
                if node.args and isinstance(node.args[0], ast.Constant)]


def test_no_message_shows_a_number_of_the_field_failures() -> None:
    texts = {node.value for maker in nodes() if isinstance(maker, ast.Call)
             for node in ast.walk(maker) if isinstance(node, ast.Constant)
             and isinstance(node.value, str)}
    assert len(texts) > 100
    assert not [text for text in texts if re.search(r"\bF\d{1,2}\b", text)]


@pytest.mark.parametrize(("text", "codes"), [
    ("undefined-symbol", ["undefined-symbol"]), ("f9", ["arch-exact-only"]),
    ("F5", ["undefined-symbol", "missing-library"]),
    ("F20", ["gemma4-unsupported", "not-as-locked", "not-locked"])])
def test_a_code_or_a_number_is_explained(text: str, codes: list[str]) -> None:
    assert [code.value for code, _ in explain(text)] == codes


@pytest.mark.parametrize("text", ["undefined-symbols", "F99", "", "F", "f4 "])
def test_an_unknown_code_is_refused_with_a_suggestion(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        explain(text)
    assert "undefined-symbol" in raised.value.next_step


def test_the_page_of_known_failures_has_every_number_of_a_code() -> None:
    rows = dict(re.findall(r"^\| (F\d+) \| (.*?) \|", PAGE.read_text(encoding="utf-8"),
                           re.MULTILINE))
    for code, entry in explanations().items():
        for alias in entry.aliases:
            assert f"`{code}`" in rows[alias], alias
