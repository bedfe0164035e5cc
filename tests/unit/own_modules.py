"""Which of our own modules a module imports, directly or through others."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def reached_from(*starts: str) -> set[str]:
    """Return the modules that ``starts`` (``gate/judge.py``) import, themselves included."""
    reached: set[str] = set()
    queue = list(starts)
    while queue:
        name = queue.pop()
        if name not in reached:
            reached.add(name)
            queue += _imports(ROOT / "builder" / name)
    return reached


def _imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("builder"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [place for name in (node.module or "", *names) if (place := _place(name))]
    return found


def _place(module: str) -> str:
    path = Path(*module.split(".")[1:]).with_suffix(".py") if "." in module else Path("x")
    return path.as_posix() if (ROOT / "builder" / path).is_file() else ""
