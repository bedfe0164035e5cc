"""YAML as people write it: keys in their order, texts of several lines as blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from builder.text import LINE_ENDS, unbroken


class _Dumper(yaml.SafeDumper):
    """Writes lists below their key with an indent, and never an anchor."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists, too, whatever ``indentless`` says."""
        super().increase_indent(flow, indentless=indentless and False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    odd = not (LINE_ENDS - {"\n"}).isdisjoint(value)  # kept by no other style
    style = '"' if odd else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(remarks: Sequence[str], *documents: Any) -> str:
    """Return the documents, with the remarks as comments before them."""
    head = "".join(f"# {unbroken(remark)}\n" for remark in remarks)
    return head + yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=1000,
                                allow_unicode=True, default_flow_style=False)
