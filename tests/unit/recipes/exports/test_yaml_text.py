"""YAML that reads back as it was, blocks for commands, no anchors."""

from __future__ import annotations

import pytest
import yaml

from builder.recipes.exports.yaml_text import to_yaml


def test_documents_read_back_as_they_were() -> None:
    shared = {"a": "yes", "b": "1", "c": None, "d": ["x: y", "# no comment", "${A}"]}
    text = to_yaml(["said first"], {"one": shared, "two": shared}, {"command": "a \\\n  b\n"})
    assert text.startswith("# said first\n")
    assert "&id" not in text
    assert "command: |\n  a \\\n    b\n" in text
    assert list(yaml.safe_load_all(text)) == [
        {"one": shared, "two": shared}, {"command": "a \\\n  b\n"}]


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028", "\u2029"])
def test_a_remark_stays_a_comment(end: str) -> None:
    text = to_yaml([f"said{end}kind: Other"], {"kind": f"a{end}b"})
    assert yaml.safe_load(text) == {"kind": f"a{end}b"}, "and a value what it was"
