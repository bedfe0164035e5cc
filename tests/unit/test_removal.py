"""Removing: one module does it, never outside of the folder that is named, never through a link."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.errors import UsageError
from builder.removal import remove_empty_folder, remove_file, remove_tree

BUILDER = Path(__file__).parents[2] / "builder"
REMOVING = {"unlink", "rmtree", "rmdir", "removedirs", "rm"}
# Other programs, which run in the containers of smoke tests and compiles.
ELSEWHERE = ("smoke/inside/", "compile/inside/")


def calls(tree: ast.AST) -> set[str]:
    """Return the calls that remove files: ``path.unlink``, ``shutil.rmtree``, ``os.remove``."""
    return {f"{ast.unparse(node.func)}:{node.lineno}" for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            and (node.func.attr in REMOVING
                 or ast.unparse(node.func) in ("os.remove", "os.system"))
            } | {f"from {node.module}:{node.lineno}" for node in ast.walk(tree)
                 if isinstance(node, ast.ImportFrom)
                 and {alias.name for alias in node.names} & {*REMOVING, "remove"}
                 and node.module in ("os", "shutil")}


def test_one_module_removes_files() -> None:
    found = {path.relative_to(BUILDER).as_posix(): calls(ast.parse(path.read_text("utf-8")))
             for path in BUILDER.rglob("*.py")}
    assert len(found["removal.py"]) == 3, "the test sees what it looks for"
    assert {name for name, removing in found.items()
            if removing and not name.startswith(ELSEWHERE)} == {"removal.py"}


def test_every_way_to_remove_is_seen() -> None:
    code = ("path.unlink()\nshutil.rmtree(x)\nos.remove(x)\nos.rmdir(x)\npath.rmdir()\n"
            "from os import remove\nfrom shutil import rmtree\nnames.remove(x)\n")
    assert len(calls(ast.parse(code))) == 7


def test_no_program_is_started_to_remove_files() -> None:
    words = {"rm", "-delete", "shred", "rmdir"}
    found = {str(path.relative_to(BUILDER)): {
        node.value for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in words}
        for path in BUILDER.rglob("*.py")}
    # `container rm` and `network rm` remove what carries our label, `image rm` one name.
    assert {name: used for name, used in found.items() if used} == {
        f"engine/{name}.py": {"rm"} for name in ("container", "leftovers", "network", "service")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return our folder, beside which lies one of the user's."""
    (tmp_path / "ours" / "tmp").mkdir(parents=True)
    (tmp_path / "ours" / "tmp" / "file").write_text("ours")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("theirs")
    return tmp_path / "ours"


def test_what_is_ours_goes(folder: Path) -> None:
    remove_file(folder / "tmp" / "file", folder)
    remove_file(folder / "tmp" / "file", folder)  # gone already: nothing happens
    remove_empty_folder(folder / "tmp", folder)
    assert list(folder.iterdir()) == []
    (folder / "tree" / "deep").mkdir(parents=True)
    remove_tree(folder / "tree", folder)
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_not_empty_stays(folder: Path) -> None:
    remove_empty_folder(folder / "tmp", folder)
    assert (folder / "tmp" / "file").exists()


@pytest.mark.parametrize("remove", [remove_file, remove_tree, remove_empty_folder])
@pytest.mark.parametrize("path", ["../theirs/file", "tmp/../../theirs", "", "/etc/hostname"])
def test_nothing_outside_goes(
        folder: Path, path: str, remove: Callable[[Path, Path], None]) -> None:
    with pytest.raises(UsageError, match="nothing was removed: it does not lie in"):
        remove(folder / path, folder)
    assert (folder.parent / "theirs" / "file").exists()


def test_nothing_goes_through_a_link(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "theirs")
    for remove, path in ((remove_file, folder / "link" / "file"), (remove_tree, folder / "link")):
        with pytest.raises(UsageError, match="a symbolic link"):
            remove(path, folder)
    (folder / "tmp" / "inner").symlink_to(folder.parent / "theirs")
    remove_tree(folder / "tmp", folder)
    assert not (folder / "tmp").exists()
    remove_file(folder / "link", folder)  # the link itself
    assert not (folder / "link").is_symlink()
    assert (folder.parent / "theirs" / "file").read_text() == "theirs"


def test_a_folder_is_not_removed_as_a_file(folder: Path) -> None:
    with pytest.raises(UsageError, match="it is a folder"):
        remove_file(folder / "tmp", folder)


def test_every_mark_that_processes_lock_is_opened_where_links_are_refused() -> None:
    """``open("w")`` would empty what a link in the cache leads to; a base is made by root."""
    locking = {path.relative_to(BUILDER).as_posix(): path.read_text("utf-8")
               for path in BUILDER.rglob("*.py") if "flock(" in path.read_text("utf-8")}
    assert len(locking) > 5
    for name, text in locking.items():
        opened = [ast.unparse(node) for node in ast.walk(ast.parse(text))
                  if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                  and node.func.attr == "open" and any(
                      isinstance(one, ast.Constant) and str(one.value)[:1] in ("w", "a")
                      for one in node.args)]
        assert opened == [], name
