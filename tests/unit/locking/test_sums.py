"""The sums of locks: as coreutils has them, an edit is seen, and no kill leaves a file edited."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from builder.errors import LockError
from builder.locking import sums
from builder.locking.sums import (
    SUMS,
    is_as_written,
    is_cut_off,
    is_edited,
    is_summed,
    read_sums,
    record_sum,
    refuse_edited,
    restore_step,
    settle,
    sums_fault,
    write_summed,
)


def written(path: Path, text: str = "a = 1\n") -> Path:
    path.write_text(text, encoding="utf-8")
    record_sum(path)
    return path


def test_an_edit_is_seen_and_a_new_writing_answers_for_it(tmp_path: Path) -> None:
    path = written(tmp_path / "a.toml")
    assert is_as_written(path)
    path.write_text("a = 2\n")
    assert not is_as_written(path)
    record_sum(path)
    assert is_as_written(path)


def test_coreutils_reads_the_sums_and_gone_files_are_forgotten(tmp_path: Path) -> None:
    written(tmp_path / "b.toml")
    written(tmp_path / "a.toml").unlink()
    written(tmp_path / "c.toml")
    assert list(read_sums(tmp_path)) == ["b.toml", "c.toml"]
    subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=tmp_path, check=True,
                   capture_output=True)


def test_foreign_lines_are_no_sums(tmp_path: Path) -> None:
    (tmp_path / SUMS).write_text(f"nonsense\n{'0' * 64}  ../a.toml\n{'0' * 64}  a.toml\n")
    assert read_sums(tmp_path) == {"a.toml": "0" * 64}


def test_facts_are_named_with_their_folder_and_begin_no_list(tmp_path: Path) -> None:
    path = tmp_path / "facts" / "slim.xz"
    write_summed(path, b"1")
    assert not (tmp_path / SUMS).exists()
    write_summed(tmp_path / "a.toml", b"2", begin=True)
    write_summed(path, b"1")
    assert list(read_sums(tmp_path)) == ["a.toml", "facts/slim.xz"]
    assert restore_step(path).endswith(f"`git checkout {tmp_path.name}/facts/slim.xz`")
    subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=tmp_path, check=True,
                   capture_output=True)


def test_what_no_sum_is_kept_of_is_neither_edited_nor_as_written(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("a = 1\n")
    assert not is_summed(path)
    assert not is_edited(path)
    assert not is_as_written(path)
    refuse_edited(path, "lock", "lock it again")


def test_an_edited_file_is_refused_with_both_ways_back(tmp_path: Path) -> None:
    path = written(tmp_path / "a.toml")
    refuse_edited(path, "lock", "lock it again")
    path.write_text("a = 2\n")
    with pytest.raises(LockError, match="the lock was edited by hand or badly merged") as caught:
        refuse_edited(path, "lock", "lock it again")
    assert f"git checkout {tmp_path.name}/a.toml`, or lock it again" in caught.value.next_step


def test_a_file_that_is_written_while_it_is_judged_is_not_edited(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.toml")
    look = sums._noted

    def written_after(looked_at: Path) -> set[str]:
        found = look(looked_at)
        monkeypatch.setattr(sums, "_noted", look)
        write_summed(path, b"a = 3\n")
        return found

    monkeypatch.setattr(sums, "_noted", written_after)
    assert not is_edited(path)


@pytest.mark.parametrize(("text", "fault"), [
    (None, "it is missing"), ("", ""), (f"{'0' * 64}  a.toml\n", ""),
    (f"{'0' * 64}  a.toml\n# writing {'1' * 64}  a.toml\n", ""),
    ("<<<<<<< HEAD\n", "line 1 is not the sum of a file"),
    (f"{'0' * 64}  a.toml\n{'1' * 64}  a.toml\n", "it names a.toml twice")])
def test_a_list_that_cannot_be_believed(tmp_path: Path, text: str | None, fault: str) -> None:
    if text is not None:
        (tmp_path / SUMS).write_text(text)
    assert sums_fault(tmp_path) == fault


def killed(folder: Path, moment: int) -> bool:
    """Write a file anew in a process that is killed before its nth change; say whether it was."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    left = [moment]

    def watch(event: str, words: tuple[object, ...]) -> None:
        if event in ("os.rename", "open") and str(words[0]).startswith(str(folder)):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    try:
        write_summed(folder / "a.toml", b"new\n")
    finally:
        os._exit(0)


def test_a_writing_that_is_killed_at_any_moment_leaves_no_edited_file(tmp_path: Path) -> None:
    path, other, moment = tmp_path / "a.toml", tmp_path / "b.toml", 1
    write_summed(path, b"old\n", begin=True)
    write_summed(other, b"other\n")
    before = (tmp_path / SUMS).read_bytes()
    seen, cut_off = set[bytes](), set[bool]()
    while killed(tmp_path, moment):
        assert not is_edited(path), f"moment {moment}"
        assert is_as_written(path) != is_cut_off(path)
        assert sums_fault(tmp_path) == ""
        cut_off.add(is_cut_off(path))
        seen.add(path.read_bytes())
        if moment % 2:
            settle(path)
        record_sum(other)  # the next writing of another file forgets nothing
        assert is_as_written(path), f"moment {moment}"
        path.write_bytes(b"old\n")
        (tmp_path / SUMS).write_bytes(before)
        moment += 1
    assert seen == {b"old\n", b"new\n"}
    assert cut_off == {True, False}
    assert read_sums(tmp_path).keys() == {"a.toml", "b.toml"}
