"""Normalised tars: the same entries give the same bytes, and nothing strange gets in."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.tarball import (
    MTIME,
    File,
    Folder,
    Link,
    content,
    in_memory,
    parents,
    read_files,
    why_not,
    with_parents,
    write_tar,
)

ENTRIES = (in_memory("opt/b/run", b"#!", executable=True), in_memory("opt/a.txt", b"text"),
           Link("opt/link", "a.txt"), Folder("opt/empty"))


def test_the_order_of_entries_does_not_matter(tmp_path: Path) -> None:
    one = write_tar(tmp_path / "1.tar", ENTRIES)
    other = write_tar(tmp_path / "2.tar", reversed(ENTRIES))
    assert one.digest == other.digest
    assert one.digest == hashlib.sha256(one.path.read_bytes()).hexdigest()
    assert one.size == one.path.stat().st_size


def test_a_folder_may_be_for_all(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "x.tar", [Folder("shared/deep", 0o1777)])
    with tarfile.open(tar.path) as archive:
        assert [(item.name, item.mode) for item in archive] == [
            ("shared", 0o755), ("shared/deep", 0o1777)]


def test_members_are_normalised_and_have_their_folders(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "x.tar", ENTRIES)
    with tarfile.open(tar.path) as archive:
        members = {member.name: member for member in archive}
    assert list(members) == ["opt", "opt/a.txt", "opt/b", "opt/b/run", "opt/empty", "opt/link"]
    assert {(item.mtime, item.uid, item.gid, item.uname) for item in members.values()} == {
        (MTIME, 0, 0, "")}
    assert [members[name].mode for name in ("opt", "opt/a.txt", "opt/b/run")] == [
        0o755, 0o644, 0o755]
    assert members["opt/link"].linkname == "a.txt"


def test_files_of_a_tar_are_read_back(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "x.tar", ENTRIES)
    files = {file.path: (content(file), file.executable) for file in read_files(tar.path)}
    assert files == {"opt/a.txt": (b"text", False), "opt/b/run": (b"#!", True)}


def test_every_byte_is_reported(tmp_path: Path) -> None:
    counts: list[int] = []
    tar = write_tar(tmp_path / "x.tar", ENTRIES, counts.append)
    assert sum(counts) == tar.size


def test_long_and_foreign_names_are_kept(tmp_path: Path) -> None:
    names = ["opt/" + "x" * 300, "opt/größe", "opt/" + "d/" * 120 + "f"]
    tar = write_tar(tmp_path / "x.tar", [in_memory(name, b"") for name in names])
    assert sorted(file.path for file in read_files(tar.path)) == sorted(names)


@pytest.mark.parametrize(("path", "reason"), [
    ("/etc/passwd", "absolute"), ("a/../b", "leads out"), ("..", "leads out"),
    ("a//b", "plain"), ("a/./b", "plain"), ("", "plain"), ("a\nb", "plain"), ("a\\b", "plain"),
    ("a\x00", "plain"), ("a/\ud800", "plain"), ("a/.wh.b", "delete files"),
    (".wh..wh..opq", "delete")])
def test_a_strange_path_is_refused(tmp_path: Path, path: str, reason: str) -> None:
    assert reason in why_not(path)
    with pytest.raises(ValueError, match=reason):
        write_tar(tmp_path / "x.tar", [in_memory(path, b"")])


def test_a_plain_path_is_not() -> None:
    assert why_not("opt/sparkyard/lib/python3.11/a-b_c.d+e") == ""


def test_a_path_is_there_once_and_is_one_thing() -> None:
    with pytest.raises(ValueError, match="is there twice"):
        with_parents([in_memory("a", b"1"), in_memory("a", b"2")])
    with pytest.raises(ValueError, match="a file and the folder"):
        with_parents([in_memory("a", b"1"), in_memory("a/b", b"2")])


@pytest.mark.parametrize("size", [2, 4])
def test_a_file_holds_as_many_bytes_as_it_says(tmp_path: Path, size: int) -> None:
    def read() -> Iterator[bytes]:
        yield b"abc"
    with pytest.raises(ValueError, match=f"does not hold the {size} bytes"):
        write_tar(tmp_path / "x.tar", [File("a", size, read)])


def test_parents_come_from_the_inside() -> None:
    assert parents("a/b/c") == ["a/b", "a"]
    assert parents("a") == []
