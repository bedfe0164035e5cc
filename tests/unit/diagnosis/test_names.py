"""One place explains every name: the gate's codes, the known issues, and the old F-numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builder.diagnosis.catalogue import load
from builder.diagnosis.names import all_names, explain
from builder.errors import UsageError

PAGE = Path(__file__).parents[3] / "docs" / "known-failures.md"


def test_a_name_that_gate_and_log_share_is_explained_for_both() -> None:
    hits = explain("undefined-symbol")
    assert [entry.seen_by for entry in hits] == [
        "found by the gate", "named from a log or a failed check"]
    assert [entry.aliases for entry in hits] == [("F4", "F5"), ("F4",)]


@pytest.mark.parametrize("word", ["F14", "f14", " fp8-scales-not-mapped "])
def test_an_alias_and_a_name_mean_the_same(word: str) -> None:
    entry, = explain(word)
    assert entry.name == "fp8-scales-not-mapped"
    assert "remedy:" in str(entry)
    assert "https://" in str(entry)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        explain("undefined-symbols")
    assert 'perhaps you meant "undefined-symbol"' in caught.value.next_step
    with pytest.raises(UsageError):
        explain("")


def test_the_table_of_the_docs_has_every_alias_of_an_issue() -> None:
    table = dict(re.findall(r"^\| (F\d+) \| (.*?) \|", PAGE.read_text(encoding="utf-8"),
                            flags=re.MULTILINE))
    for issue in load().issues:
        if issue.alias:
            assert f"`{issue.name}`" in table[issue.alias]
    for entry in all_names():
        for alias in entry.aliases:
            assert f"`{entry.name}`" in table[alias], entry
