"""A diff's parts as values: what they expect, what they leave, and how they are undone."""

from __future__ import annotations

import pytest

from builder.errors import PatchError
from builder.patches.filepatch import Change, FilePatch, Hunk, reverse

HUNK = Hunk(3, 4, ((" ", b"a\n"), ("-", b"b\n"), ("+", b"c\n")), "@@ -3,2 +4,2 @@")


def test_a_hunk_expects_its_old_lines_and_leaves_its_new_ones() -> None:
    assert (HUNK.old, HUNK.new) == ([b"a\n", b"b\n"], [b"a\n", b"c\n"])
    assert not HUNK.ends_in_context


def test_undoing_swaps_lines_places_names_and_modes() -> None:
    file = FilePatch(Change.RENAME, "old.py", "new.py", "100644", "100755", (HUNK,))
    undone, = reverse([file])
    assert (undone.old, undone.new, undone.old_mode, undone.new_mode) == (
        "new.py", "old.py", "100755", "100644")
    assert (undone.hunks[0].old, undone.hunks[0].new) == (HUNK.new, HUNK.old)
    assert (undone.hunks[0].old_start, undone.hunks[0].new_start) == (4, 3)
    assert reverse([undone]) == (file,)


@pytest.mark.parametrize(("change", "opposite"), [
    (Change.CREATE, Change.DELETE), (Change.DELETE, Change.CREATE), (Change.MODIFY, Change.MODIFY)])
def test_a_new_file_is_undone_by_its_deletion(change: Change, opposite: Change) -> None:
    assert FilePatch(change, "x", "x").reversed().change is opposite


def test_a_copy_cannot_be_undone() -> None:
    with pytest.raises(PatchError, match="copies a file"):
        FilePatch(Change.COPY, "x", "y").reversed()


@pytest.mark.parametrize(("modes", "binary", "reason"), [
    (("", ""), False, ""), (("100644", "100755"), False, ""), (("", "120000"), False, "symbolic"),
    (("160000", ""), False, "submodule"), (("", "100600"), False, "mode 100600"),
    (("", ""), True, "binary")])
def test_what_cannot_be_patched_says_why(
        modes: tuple[str, str], binary: bool, reason: str) -> None:
    why = FilePatch(Change.MODIFY, "x", "x", *modes, binary=binary).why_refused()
    assert reason in why if reason else why == ""
