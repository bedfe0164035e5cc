"""Which folder is a cache of ours, and what happens to all others: nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from builder.cache_folder import MARKER, STORE, claim, is_claimed, named_folder
from builder.errors import UsageError
from builder.process import run

MATRIX = Path(__file__).parents[2] / "matrix.toml"
SHA = "ab" * 32
COMMANDS = (["cache"], ["cache", "show", "--dry-run"], ["cache", "prune", "--dry-run"],
            ["cache", "prune", "--all"], ["cache", "prune", "--days", "0"], ["plan"], ["report"],
            ["fetch", "cpu"])


def earlier(root: Path) -> Path:
    """Make a cache as versions without a marker left it."""
    for name in (*STORE, "records/cpu", "contexts", "debs", "services/registry"):
        (root / name).mkdir(parents=True)
    for name in (".lock", "bases.toml", f"layers/{SHA}.tar", f"keys/{SHA}.json", f"debs/{SHA}.deb",
                 "records/cpu/20260102T030405Z-2.json", "services/dockerd.log"):
        (root / name).touch()
    (root / "wheels" / SHA).mkdir()
    (root / "tmp" / "tmpk3x_9aab").mkdir()
    return root


def tree(root: Path) -> dict[str, str]:
    """Return all that lies below a folder."""
    return {str(path.relative_to(root)): path.read_text() if path.is_file() else "folder"
            for path in sorted(root.rglob("*"))}


@pytest.mark.parametrize("there", [False, True])
def test_a_new_or_empty_folder_is_marked(tmp_path: Path, *, there: bool) -> None:
    root = tmp_path / "new" / "cache"
    if there:
        root.mkdir(parents=True)
    assert claim(root) == root
    assert is_claimed(root)
    assert "cache of Sparkyard" in (root / MARKER).read_text()
    (root / "anything.txt").touch()
    assert claim(root) == root


def test_a_cache_of_an_earlier_version_is_recognised_by_its_names(tmp_path: Path) -> None:
    before = tree(earlier(tmp_path))
    claim(tmp_path)
    assert is_claimed(tmp_path)
    assert {name: text for name, text in tree(tmp_path).items() if name != MARKER} == before


def test_a_machine_that_was_only_set_up_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "registry.yml").touch()
    claim(tmp_path)
    assert is_claimed(tmp_path)


def test_records_are_recognised_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "records" / "cpu").mkdir(parents=True)
    (tmp_path / "records" / "cpu" / "20260102T030405Z-2.json").touch()
    claim(tmp_path)
    assert is_claimed(tmp_path)


def test_debian_packages_are_recognised_by_their_digests(tmp_path: Path) -> None:
    (tmp_path / "debs").mkdir()
    with pytest.raises(UsageError, match="nothing in it shows"):
        claim(tmp_path)
    (tmp_path / "debs" / f"{SHA}.deb").touch()
    claim(tmp_path)
    assert is_claimed(tmp_path)


@pytest.mark.parametrize("stranger", [
    "thesis.txt", "tmp/thesis.txt", "wheels/mine.whl", "layers/photo.tar", "partial/x",
    "records/My Folder", "tmp/tmpk3x_9aabc", "contexts/other"])
def test_one_strange_name_and_the_folder_is_not_ours(tmp_path: Path, stranger: str) -> None:
    path = earlier(tmp_path) / stranger
    path.write_text("the user's")
    with pytest.raises(UsageError, match="is not one of its files") as caught:
        claim(tmp_path)
    assert stranger in caught.value.what
    assert not is_claimed(tmp_path)


@pytest.mark.parametrize("names", [("tmp",), ("wheels", "layers"), ("logs", "records")])
def test_a_few_folders_of_common_names_are_no_cache(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match="is not a cache of Sparkyard: nothing in it shows"):
        claim(tmp_path)


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("name", ["tmp", "wheels", "layers", "records"])
def test_links_in_it_are_refused(tmp_path: Path, name: str, *, marked: bool) -> None:
    root, theirs = tmp_path / "cache", tmp_path / "theirs"
    theirs.mkdir()
    root.mkdir()
    if marked:
        claim(root)
    (root / name).symlink_to(theirs)
    with pytest.raises(UsageError, match=f"contains symbolic links: {name}"):
        claim(root)


def test_a_link_to_the_whole_cache_is_fine(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    assert claim(tmp_path / "link") == tmp_path / "link"
    assert is_claimed(tmp_path / "disk")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used: Not a directory"):
        claim(tmp_path / "file")


def test_the_folder_is_named_by_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("SPARKYARD_CACHE", "~/own")
    assert named_folder() == tmp_path / "own"
    monkeypatch.delenv("SPARKYARD_CACHE")
    assert named_folder() == tmp_path / "xdg" / "sparkyard"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert named_folder() == tmp_path / ".cache" / "sparkyard"


@pytest.mark.parametrize("words", [["plan"], ["report"], ["engine", "--dry-run"]], ids=" ".join)
def test_a_command_that_only_looks_makes_no_folder(tmp_path: Path, words: list[str]) -> None:
    done = run([sys.executable, "-m", "builder", "--matrix", MATRIX, *words],
               env={"SPARKYARD_CACHE": str(tmp_path / "cache")}, check=False)
    assert "cache of Sparkyard" not in done.stderr
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_touches_a_folder_of_the_users(tmp_path: Path, words: list[str]) -> None:
    """The folder has a ``tmp/`` with a file in it, which ``cache show --dry-run`` once removed."""
    for name in ("tmp/work-abcdefgh/thesis.txt", "wheels/mine/photo.whl", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("the user's")
    before = tree(tmp_path)
    done = run([sys.executable, "-m", "builder", "--matrix", MATRIX, *words],
               env={"SPARKYARD_CACHE": str(tmp_path)}, cwd=MATRIX.parent, check=False)
    assert done.returncode == 2, done.stderr
    assert "this folder is not empty, and it is not a cache of Sparkyard" in done.stderr
    assert tree(tmp_path) == before


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_reaches_behind_a_link(tmp_path: Path, words: list[str]) -> None:
    root, theirs = tmp_path / "cache", tmp_path / "theirs"
    claim(root)
    (theirs / SHA).mkdir(parents=True)
    (theirs / SHA / "photo.whl").write_text("the user's")
    (theirs / f"{SHA}.tar").write_text("the user's")
    for name in ("tmp", "wheels", "layers"):
        (root / name).symlink_to(theirs)
    before = tree(theirs)
    done = run([sys.executable, "-m", "builder", "--matrix", MATRIX, *words],
               env={"SPARKYARD_CACHE": str(root)}, cwd=MATRIX.parent, check=False)
    assert done.returncode == 2, done.stderr
    assert "contains symbolic links: layers, tmp, wheels" in done.stderr
    assert tree(theirs) == before
