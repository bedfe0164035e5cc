"""Files: written whole or not at all, never onto an input, and a full disk said in words."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from builder import files
from builder.errors import DiskError, UsageError


def test_a_file_appears_whole_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.txt"
    files.write_text(path, "grün\n")
    files.write_text(path, "gelb\n")
    assert path.read_text(encoding="utf-8") == "gelb\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    files.write_bytes(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_digest_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5_000_000)
    assert files.sha256_file(path) == hashlib.sha256(b"x" * 5_000_000).hexdigest()


def test_space_is_asked_for_where_the_folder_would_lie(tmp_path: Path) -> None:
    missing = tmp_path / "not" / "yet"
    assert files.free_bytes(missing) > 0
    files.require_space(missing, 1, "for nothing")
    with pytest.raises(DiskError, match="not enough disk for a test: 1000000000 GB needed"):
        files.require_space(missing, 10**18, "for a test")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said_in_words(tmp_path: Path, number: int) -> None:
    with pytest.raises(DiskError, match="became full while testing"), \
            files.disk_errors(tmp_path, "while testing"):
        raise OSError(number, os.strerror(number))


def test_other_errors_of_the_system_pass_through(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), files.disk_errors(tmp_path, "while testing"):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_an_output_goes_to_a_new_file_or_replaces_a_plain_one(tmp_path: Path) -> None:
    files.refuse_output(tmp_path / "new.html")
    (tmp_path / "old.html").write_text("<html>", encoding="utf-8")
    files.refuse_output(tmp_path / "old.html", inputs=[tmp_path / "gone.json"])


@pytest.mark.parametrize(("name", "reason"), [
    ("link", "symbolic link"), ("dangling", "symbolic link"), ("folder", "a folder"),
    ("none/file", "its folder does not exist"), ("input.txt", "that this command reads"),
    ("hard", "that this command reads"), ("record.json", "a lock or a record"),
    ("lock.toml", "a lock or a record")])
def test_an_output_that_would_do_harm_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    source = tmp_path / "input.txt"
    source.write_text("text", encoding="utf-8")
    (tmp_path / "hard").hardlink_to(source)
    (tmp_path / "link").symlink_to(source)
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    (tmp_path / "record.json").write_text('{"record_version": 2}', encoding="utf-8")
    (tmp_path / "lock.toml").write_text("lock_version = 1\n", encoding="utf-8")
    with pytest.raises(UsageError, match=reason):
        files.refuse_output(tmp_path / name, inputs=[source])
