"""YAML that reads back as it was, blocks for commands, no anchors."""

from __future__ import annotations

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
