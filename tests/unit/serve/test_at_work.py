"""Two commands at once: the second says which one is at work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from builder.errors import UsageError
from builder.serve.at_work import at_work, who_is_at_work


def enter(cache: Path) -> None:
    with at_work(cache, "stop"):
        pass


def test_the_second_is_refused_by_name_and_the_next_is_not(tmp_path: Path) -> None:
    assert who_is_at_work(tmp_path) == ""
    with at_work(tmp_path, "switch tiny"):
        assert who_is_at_work(tmp_path) == f"switch tiny (process {os.getpid()})"
        with pytest.raises(UsageError, match="switch tiny"):
            enter(tmp_path)
        assert who_is_at_work(tmp_path), "the refused one leaves the lock's text"
    assert who_is_at_work(tmp_path) == ""
    enter(tmp_path)


def test_the_lock_goes_with_a_killed_process(tmp_path: Path) -> None:
    code = ("import os, pathlib, sys\nfrom builder.serve.at_work import at_work\n"
            "with at_work(pathlib.Path(sys.argv[1]), 'serve x'): os.kill(os.getpid(), 9)")
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert who_is_at_work(tmp_path) == ""
    enter(tmp_path)


def test_a_link_in_the_place_of_the_mark_is_refused_and_its_file_stays(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "serve").mkdir()
    (tmp_path / "serve" / "at-work").symlink_to(tmp_path / "theirs")
    with pytest.raises(UsageError, match="has become a symbolic link"):
        enter(tmp_path)
    assert (tmp_path / "theirs").read_text() == "theirs"
