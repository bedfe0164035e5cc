"""The folder of the page: whole or not at all, and nobody else's files are touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import DiskError, UsageError
from builder.site.folder import MARKER, check_folder, write_folder

PAGE = {"index.html": "one", "badges/cpu.svg": "<svg/>", "records/0123456789abcdef.json": "{}"}


def found(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text()
            for path in folder.rglob("*") if path.is_file() and path.name != MARKER}


@pytest.mark.parametrize("empty", [True, False])
def test_it_is_written_and_replaced_as_a_whole(tmp_path: Path, empty: bool) -> None:
    folder, cache = tmp_path / "page", tmp_path / "cache"
    if empty:
        folder.mkdir()
    for page in (PAGE, {"index.html": "two"}):
        check_folder(folder, cache)
        write_folder(folder, page)
        assert found(folder) == page
    assert [path.name for path in tmp_path.iterdir()] == ["page"], "nothing is left beside it"
    assert (folder / "index.html").stat().st_mode & 0o777 == 0o644


def test_what_is_not_a_page_of_ours_is_refused(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    strange, file, link = tmp_path / "strange", tmp_path / "file", tmp_path / "link"
    strange.mkdir()
    (strange / "mine.txt").write_text("mine")
    file.write_text("mine")
    write_folder(tmp_path / "page", PAGE)
    link.symlink_to(tmp_path / "page")
    for path in (strange, file, link, tmp_path / "no" / "page", cache / "page", cache):
        with pytest.raises(UsageError):
            check_folder(path, cache)
    assert (strange / "mine.txt").read_text() == "mine"


STRANGE = (".git", "CNAME", "badges/mine.txt", "records/mine.txt", "records/results.json",
           "records/mine.json/thesis.txt", "records/fedcba9876543210.json/thesis.txt")


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("name", STRANGE)
def test_what_was_put_beside_a_page_is_not_lost(tmp_path: Path, name: str, earlier: bool) -> None:
    page = tmp_path / "page"
    write_folder(page, PAGE)
    if earlier:  # its marker did not list the files
        (page / MARKER).write_text("This folder was made by `sparkyard site` …\n")
    check_folder(page, tmp_path / "cache")
    (page / name).parent.mkdir(exist_ok=True)
    (page / name).write_text("mine")
    for refuses in (lambda: check_folder(page, tmp_path / "cache"),
                    lambda: write_folder(page, PAGE)):
        with pytest.raises(UsageError, match="not of a page of Sparkyard: "
                           + name.removesuffix("/thesis.txt")):
            refuses()
    assert (page / name).read_text() == "mine"


def test_a_name_that_a_page_could_have_is_not_ours_because_of_it(tmp_path: Path) -> None:
    write_folder(tmp_path / "page", PAGE)
    for name in ("badges/mine.svg", f"records/{'0' * 16}.json"):
        (tmp_path / "page" / name).write_text("mine")
        with pytest.raises(UsageError, match=f"not of a page of Sparkyard: {name}"):
            check_folder(tmp_path / "page", tmp_path / "cache")
        (tmp_path / "page" / name).unlink()


def test_a_link_under_a_name_of_the_page_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "page", {"index.html": "one"})
    (tmp_path / "mine").mkdir()
    (tmp_path / "page" / "records").symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="not of a page of Sparkyard: records"):
        check_folder(tmp_path / "page", tmp_path / "cache")


def test_a_failure_half_way_leaves_the_old_page(tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "page"
    write_folder(folder, PAGE)

    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")
    monkeypatch.setattr("builder.site.folder.write_text", full)
    with pytest.raises(DiskError, match="full"):
        write_folder(folder, {"index.html": "two"})
    assert found(folder) == PAGE
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


def test_the_old_page_is_put_back_where_the_new_one_cannot_take_its_place(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, replace = tmp_path / "page", Path.replace
    write_folder(folder, PAGE)
    calls: list[Path] = []

    def second_fails(self: Path, target: Path) -> Path:
        calls.append(self)
        if len(calls) == 4:  # two files, the folder aside, then the new folder
            raise OSError(5, "Input/output error")
        return replace(self, target)
    monkeypatch.setattr(Path, "replace", second_fails)
    with pytest.raises(UsageError, match="Input/output error"):
        write_folder(folder, {"index.html": "two"})
    assert found(folder) == PAGE
