"""Every message that the code can raise or print, to be read: ``python -m tests.messages``.

Messages are found in the source, not collected by hand, so the list cannot miss a new one. Values
that are only known at run time are shown as ``{…}``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
NARRATION = {"info", "warn", "out", "debug"}  # the functions of builder.console
PARSER = {"add_argument", "add_parser", "add_subparsers", "ArgumentParser"}
HELP = {"help", "description", "epilog"}
STEPS = {"next_step", "where"}


@dataclass(frozen=True)
class Message:
    """One text that a user may see: its file and line, what makes it, and the text itself."""

    file: str
    line: int
    kind: str
    text: str


def template(node: ast.expr) -> str:
    """Return the text of an expression; what is filled in at run time shows as ``{…}``."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{…}"
                       for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    if isinstance(node, ast.IfExp):
        return f"{template(node.body)} | {template(node.orelse)}"
    return "{…}"


def _name(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def messages_of(file: str, source: str) -> Iterator[Message]:
    """Return the messages of one module, in the order of its lines."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = _name(node)
        if name.endswith("Error") or name == "Problem":
            texts = [template(argument) for argument in node.args]
            texts += [f"{word.arg}: {template(word.value)}" for word in node.keywords
                      if word.arg in STEPS]
        elif name in NARRATION:
            texts = [template(argument) for argument in node.args[:1]]
        elif name in PARSER:
            texts = [template(word.value) for word in node.keywords if word.arg in HELP]
        else:
            continue
        shown = " / ".join(text for text in texts if text.strip("{…}"))
        if shown:
            yield Message(file, node.lineno, name, shown)


def all_messages(root: Path = ROOT) -> list[Message]:
    """Return the messages of the whole package."""
    return [message for path in sorted((root / "builder").rglob("*.py"))
            for message in messages_of(path.relative_to(root).as_posix(),
                                       path.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    for each in all_messages():
        sys.stdout.write(f"{each.file}:{each.line}: {each.kind}: {each.text}\n")
