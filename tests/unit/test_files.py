"""Files: written whole or not at all, never onto an input, and a full disk said in words."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest
from report_records import full_record

from builder import files
from builder.errors import DiskError, UsageError
from builder.record.models import write_record

LOCKS = Path(__file__).parents[2] / "locks"


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
    ("none/file", "its folder does not exist"), ("input.txt", "already uses that file"),
    ("hard", "already uses that file"), ("record.json", "it is a record"),
    ("lock.toml", "it is a lock"), ("pipe", "a device or a pipe"), ("x" * 300, "too long")])
def test_an_output_that_would_do_harm_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    source = tmp_path / "input.txt"
    source.write_text("text", encoding="utf-8")
    (tmp_path / "hard").hardlink_to(source)
    (tmp_path / "link").symlink_to(source)
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "record.json").write_text('{"record_version": 2}', encoding="utf-8")
    (tmp_path / "lock.toml").write_text("lock_version = 1\n", encoding="utf-8")
    with pytest.raises(UsageError, match=reason):
        files.refuse_output(tmp_path / name, inputs=[source])


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.toml")), ids=lambda path: path.name)
def test_every_committed_lock_is_recognised_as_one(lock: Path) -> None:
    with pytest.raises(UsageError, match="it is a lock of Sparkyard"):
        files.refuse_output(lock)


def test_a_record_as_it_is_written_is_recognised_as_one(tmp_path: Path) -> None:
    path = write_record(tmp_path / "record.json", full_record())
    with pytest.raises(UsageError, match="it is a record of Sparkyard"):
        files.refuse_output(path)
    files.refuse_output(path, records=True)  # a verb that writes records may replace a copy
    with pytest.raises(UsageError, match="it is a lock of Sparkyard"):
        files.refuse_output(LOCKS / "cpu.toml", records=True)


def test_what_only_mentions_sparkyard_is_not_ours(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>Made by Sparkyard from 1 record</p>", encoding="utf-8")
    files.refuse_output(page)


def test_outputs_are_checked_together(tmp_path: Path) -> None:
    files.check_outputs(None, Path("-"), tmp_path / "a", tmp_path / "b", protected=tmp_path / "c")
    with pytest.raises(UsageError, match="already uses that file"):
        files.check_outputs(tmp_path / "a", tmp_path / "a")
    with pytest.raises(UsageError, match="lies in the cache folder"):
        files.check_outputs(tmp_path / "c" / "wheels" / "x", protected=tmp_path / "c")
    (tmp_path / "c").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "c")
    with pytest.raises(UsageError, match="lies in the cache folder"):
        files.check_outputs(tmp_path / "link" / "x", protected=tmp_path / "c")


def test_a_mark_that_processes_lock_is_made_and_keeps_its_text(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with files.open_mark(mark) as stream:
        stream.write("one")
    with files.open_mark(mark) as stream:
        assert stream.read() == "one"


def test_a_mark_that_is_a_link_is_refused_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    for name in ("theirs", "nothing"):
        mark = tmp_path / f"mark of {name}"
        mark.symlink_to(tmp_path / name)
        with pytest.raises(UsageError, match="has become a symbolic link"):
            files.open_mark(mark)
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(FileNotFoundError):
        files.open_mark(tmp_path / "no" / "mark")
