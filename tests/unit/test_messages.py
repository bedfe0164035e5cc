"""The list of messages sees every way that a text reaches a user."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import builder
from tests.messages import all_messages, messages_of

ERRORS = {"UsageError", "VerdictError", "LockError", "DamagedLockError", "NetworkError",
          "EngineError", "PatchError", "DiskError", "HostError"}

SOURCE = '''
raise UsageError(f"no {kind}", next_step="name " + "one")
console.info("reading" if new else "again")
group.add_argument("--all", help="everything")
compute(1, "not a message")
'''


def test_errors_narration_and_help_are_listed_with_their_lines() -> None:
    listed = [(each.line, each.kind, each.text) for each in messages_of("x.py", SOURCE)]
    assert listed == [
        (2, "UsageError", "no {…} / next_step: name one"),
        (3, "info", "reading | again"),
        (4, "add_argument", "everything"),
    ]


def test_the_whole_package_is_read() -> None:
    files = {message.file for message in all_messages()}
    assert {"builder/build.py", "builder/gate/run.py", "builder/commands/plan.py"} & files
    assert len(all_messages()) > 300


def without_a_next_step(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of errors and problems of a configuration that do not say what to do."""
    ours = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
            and node.module == "builder.errors" for alias in node.names}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        told = any(word.arg in ("next_step", None) for word in node.keywords)
        spread = any(isinstance(word, ast.Starred) for word in node.args)
        if node.func.id in ERRORS and not told:
            yield node.lineno
        if node.func.id == "Problem" and "Problem" in ours and not (
                told or spread or len(node.args) == 3):
            yield node.lineno


def test_an_error_without_a_next_step_is_seen() -> None:
    source = """from builder.errors import Problem
raise UsageError("wrong", where="here")
raise UsageError("wrong", where="here", next_step="correct it")
problems = [Problem("key", "is wrong"), Problem("key", "is wrong", "correct it"), Problem(*parts)]
"""
    assert list(without_a_next_step(ast.parse(source))) == [2, 4]
    assert not list(without_a_next_step(ast.parse('Problem("another kind")')))


def test_every_error_that_a_user_sees_says_what_to_do() -> None:
    root = Path(builder.__file__).parent
    assert {f"{path.relative_to(root)}:{line}" for path in root.rglob("*.py")
            for line in without_a_next_step(ast.parse(path.read_text(encoding="utf-8")))} == set()
