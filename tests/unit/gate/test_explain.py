"""Every code is explained, and nothing is explained that cannot be found."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from builder.errors import UsageError
from builder.gate.explain import explain, explanations

BUILDER = Path(__file__).parents[3] / "builder"
SOURCES = (*sorted((BUILDER / "gate").glob("*.py")), *sorted((BUILDER / "binaries").glob("*.py")),
           BUILDER / "locking" / "version_checks.py")
MAKERS = ("Finding", "_finding", "Damage")


def constants(made_only: bool) -> set[str]:
    """Return the strings of the gate's code; only the first of each finding that is made."""
    found = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not made_only and isinstance(node, ast.Constant):
                found.add(node.value)
            elif (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                  and node.func.id in MAKERS and node.args
                  and isinstance(node.args[0], ast.Constant)):
                found.add(node.args[0].value)
    return {text for text in found if isinstance(text, str)}


def test_every_finding_that_is_made_is_explained() -> None:
    assert len(constants(made_only=True)) > 20
    assert constants(made_only=True) <= set(explanations())


def test_nothing_is_explained_that_cannot_be_found() -> None:
    assert set(explanations()) <= constants(made_only=False)


def test_a_code_or_its_number_is_explained() -> None:
    assert explain("undefined-symbol")[1].number == "F4"
    assert explain("f9")[0] == "arch-exact-only"


def test_an_unknown_code_gets_a_suggestion() -> None:
    with pytest.raises(UsageError) as raised:
        explain("undefined-symbols")
    assert "undefined-symbol" in raised.value.next_step
