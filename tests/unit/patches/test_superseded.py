"""A patch that fits neither way is superseded only where every line of it is in."""

from __future__ import annotations

import pytest

from builder.patches.apply import Blob
from builder.patches.filepatch import Change, FilePatch, Hunk
from builder.patches.superseded import is_met


class Files(dict[str, bytes]):
    """A tree of a few files."""

    def read(self, path: str) -> Blob | None:
        return Blob(self[path]) if path in self else None

    def is_folder(self, path: str) -> bool:
        return False


def fix(*lines: tuple[str, bytes]) -> FilePatch:
    return FilePatch(Change.MODIFY, "a.py", "a.py", hunks=(Hunk(1, 1, lines, "@@"),))


FIX = fix((" ", b"def f():\n"), ("-", b"    return 1\n"), ("+", b"    x = 2\n"),
          ("+", b"    return x\n"))


@pytest.mark.parametrize(("source", "met"), [
    (b"def g(): pass\n    x = 2\n    # new\n    return x\n", True),
    (b"    x = 2\n    return 1\n    return x\n", False),  # the old line is still there
    (b"    return x\n    x = 2\n", False),  # in another order
    (b"    x = 2\n" + b"pass\n" * 40 + b"    return x\n", False),  # far apart
    (b"    x = 2\n", False), (b"", False)])
def test_new_lines_stand_together_and_old_ones_are_gone(source: bytes, *, met: bool) -> None:
    assert is_met([FIX], Files({"a.py": source})) is met


def test_lines_that_say_nothing_do_not_count() -> None:
    empty = fix((" ", b"f(\n"), ("+", b")\n"), ("+", b"\n"))
    assert not is_met([empty], Files({"a.py": b")\n\n"}))


@pytest.mark.parametrize(("change", "tree", "met"), [
    (Change.DELETE, {}, True), (Change.DELETE, {"b.py": b""}, False),
    (Change.CREATE, {"b.py": b""}, True), (Change.CREATE, {}, False),
    (Change.RENAME, {"b.py": b""}, True), (Change.RENAME, {"a.py": b"", "b.py": b""}, False)])
def test_files_that_come_and_go(change: Change, tree: dict[str, bytes], *, met: bool) -> None:
    assert is_met([FilePatch(change, "a.py" if change is Change.RENAME else "b.py", "b.py")],
                  Files(tree)) is met
