"""Diffs as bytes: one normal form, and a cache that believes its own hashes only."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import DiskError, UsageError
from builder.patches.diffs import cache_errors, digest_of, find, keep, normal_form, place

PLAIN = b"diff --git a/x b/x\nindex 12345..6789a 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
BINARY = b"diff --git a/y b/y\nindex 1234..5678 100644\nGIT binary patch\nliteral 0\n"


def test_index_lines_are_left_out_but_for_binary_hunks() -> None:
    assert normal_form(PLAIN) == PLAIN.replace(b"index 12345..6789a 100644\n", b"")
    assert normal_form(PLAIN + BINARY).endswith(BINARY)


def test_a_line_of_a_hunk_that_reads_index_is_kept() -> None:
    hunk = PLAIN.replace(b"+b\n", b"+index 1..2\n index 3..4\n")
    assert b"+index 1..2\n index 3..4\n" in normal_form(hunk)


def test_the_normal_form_is_its_own_normal_form() -> None:
    assert normal_form(normal_form(PLAIN)) == normal_form(PLAIN)


def test_what_is_kept_is_found_by_its_digest(tmp_path: Path) -> None:
    digest = keep(tmp_path, PLAIN)
    assert digest == digest_of(PLAIN)
    assert find(tmp_path, digest) == PLAIN
    assert find(tmp_path, "0" * 64) is None


def test_other_bytes_under_a_digest_are_never_given_out(tmp_path: Path) -> None:
    digest = keep(tmp_path, PLAIN)
    place(tmp_path, digest).write_bytes(b"other")
    assert find(tmp_path, digest) is None


def test_faults_of_the_cache_are_errors_for_people(tmp_path: Path) -> None:
    def fail(error: OSError) -> None:
        with cache_errors(tmp_path):
            raise error

    with pytest.raises(UsageError, match="cannot be used"):
        fail(PermissionError(13, "Permission denied"))
    with pytest.raises(DiskError, match="disk became full"):
        fail(OSError(28, "No space left on device"))


def test_a_keep_that_breaks_off_leaves_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(DiskError):
        keep(tmp_path, PLAIN)
    assert not place(tmp_path, digest_of(PLAIN)).exists()
