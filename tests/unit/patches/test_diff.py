"""Hostile and odd diffs: refused before anything is written, or read exactly."""

from __future__ import annotations

import re

import pytest
from patch_wheels import diff

from builder.errors import PatchError
from builder.patches.apply import Blob, apply_files
from builder.patches.diff import SIZE_LIMIT, parse_diff
from builder.patches.filepatch import Change
from tests.unit.patches.test_apply import Memory, by_us

HUNK = b"@@ -1 +1 @@\n-a\n+b\n"


def modify(name: str) -> bytes:
    return f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n".encode() + HUNK


@pytest.mark.parametrize(("data", "reason"), [
    (modify("/etc/passwd"), "absolute path"),
    (modify("../out.py"), "leads out"),
    (modify("p/../../out.py"), "leads out"),
    (modify("p//x.py"), "not a plain path"),
    (modify("./x.py"), "not a plain path"),
    (modify(".git/hooks/post-checkout"), "git's own"),
    (modify(".GIT/config"), "git's own"),
    (modify("p/.wh.x"), "would delete files below"),
    (b'diff --git "a/p\\000x" "b/p\\000x"\nold mode 100644\nnew mode 100755\n', "plain path"),
    (b"diff --git a/x b/x\n--- a/y\n+++ b/y\n" + HUNK, "do not agree"),
    (b"diff --git a/x b/x\n--- a/x\n+++ b/../y\n" + HUNK, "leads out"),
    (b"diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to ../y\n", "leads out"),
    (b"diff --git a/x b/y\nrename from x\nrename to /y\n", "absolute"),
    (b"diff --git a/x b/y\nrename from x\n", "does not name both"),
    (b"--- a/x\n+++ b/x\n" + HUNK, "git's own format"),
    (b"diff --git old/x new/x\n--- old/x\n+++ new/x\n" + HUNK, "begin with a/"),
    (b"diff --cc x\nindex 1,2..3\n", "merge"),
    (HUNK, "under no file"),
    (b"diff --git a/x b/x\n" + HUNK, "under no file"),
    (b"", "no git diff"),
    (b"<html>rate limit exceeded</html>", "no git diff"),
    (modify("x") + b"+c\n", "more lines than it says"),
    (modify("x")[:-3], "not as many"),
    (modify("x")[:-1], "not as many"),
    (b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n", "changes nothing"),
    (b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -9999999999999 +1 @@\n-a\n+b\n", "damaged"),
    (b"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n" + HUNK, "expects lines"),
    (b"diff --git a/\xff b/\xff\nnew file mode 100644\n", "not UTF-8"),
])
def test_refused_while_reading(data: bytes, reason: str) -> None:
    with pytest.raises(PatchError, match=re.escape(reason)) as error:
        parse_diff(data, "patch")
    assert error.value.exit_code == 6


@pytest.mark.parametrize(("data", "reason"), [
    (b"diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n",
     "symbolic link"),
    (b"diff --git a/x b/x\nold mode 100644\nnew mode 120000\n", "symbolic link"),
    (b"diff --git a/x b/x\nindex 111..222 120000\n--- a/x\n+++ b/x\n" + HUNK, "symbolic link"),
    (b"diff --git a/x b/x\nnew file mode 160000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+Sub\n",
     "submodule"),
    (b"diff --git a/x b/x\nnew file mode 104755\n", "of mode 104755"),
    (b"diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZ\n\n", "binary"),
    (b"diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n", "binary"),
    (modify("x") + modify("x"), "changed twice"),
])
def test_refused_unless_left_out(data: bytes, reason: str) -> None:
    """Reading them harms nobody: a diff may have such files where they are left out."""
    with pytest.raises(PatchError, match=reason):
        apply_files(parse_diff(data), Memory({"x": b"a\n"}))


def test_too_large_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(PatchError, match="larger than 32 MB"):
        parse_diff(modify("x") * (SIZE_LIMIT // 40))


def test_copies_that_multiply_are_refused() -> None:
    data = b"".join(f"diff --git a/x b/y{number}\ncopy from x\ncopy to y{number}\n".encode()
                    for number in range(300))
    with pytest.raises(PatchError, match="would write more"):
        apply_files(parse_diff(data), Memory({"x": bytes(1_000_000)}))


def test_one_bad_file_and_nothing_is_changed() -> None:
    data = diff("good.py", "a\n", "b\n") + diff("bad.py", "expected\n", "b\n")
    applied = apply_files(parse_diff(data), Memory({"good.py": b"a\n", "bad.py": b"found\n"}))
    assert applied.changes == {}
    assert [conflict.path for conflict in applied.conflicts] == ["bad.py"]


def test_a_file_never_takes_a_folders_place() -> None:
    for name, files in (("p", {"p/x": b""}), ("p/x/y", {"p/x": b""})):
        applied = apply_files(parse_diff(diff(name, None, "new\n")), Memory(files))
        assert applied.conflicts


@pytest.mark.parametrize(("before", "after"), [
    ("a\r\nb\r\n", "a\r\nc\r\n"), ("a", "a\n"), ("a\n", "a"), ("", "a"), ("a\n", ""),
])
def test_line_ends(before: str, after: str) -> None:
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    body = "".join(f"{sign}{line}" + ("" if line.endswith("\n") else
                                      "\n\\ No newline at end of file\n")
                   for sign, lines in (("-", old), ("+", new)) for line in lines)
    data = (f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -{min(len(old), 1)},{len(old)} "
            f"+{min(len(new), 1)},{len(new)} @@\n{body}").encode()
    assert by_us({"x": before.encode()}, data) == {"x": after.encode()}


def test_modes_and_empty_files() -> None:
    data = (b"diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
            b"diff --git a/e b/e\nnew file mode 100644\nindex 000..e69\n"
            b"diff --git a/gone b/gone\ndeleted file mode 100644\nindex e69..000\n")
    applied = apply_files(parse_diff(data), Memory({"run": b"x", "gone": b""}))
    assert applied.changes == {"run": Blob(b"x", executable=True), "e": Blob(b""), "gone": None}


def test_names_may_change_places() -> None:
    data = (b"diff --git a/x b/y\nrename from x\nrename to y\n"
            b"diff --git a/y b/x\nrename from y\nrename to x\n")
    assert by_us({"x": b"1", "y": b"2"}, data) == {"x": b"2", "y": b"1"}


def test_mail_around_a_diff_is_skipped() -> None:
    data = b"From 123 Mon Sep 17\nSubject: [PATCH] x\n---\n x | 2 +-\n\n" + modify("x") \
        + b"-- \n2.39.5\n\n"
    assert [file.change for file in parse_diff(data)] == [Change.MODIFY]


@pytest.mark.parametrize("line", ["--- a/other.py", "+++ b/other.py"])
def test_a_second_name_for_one_file_is_refused(line: str) -> None:
    """Git refuses it as well; which of the two is meant, nobody can say."""
    data = (f"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n{line}\n"
            "@@ -1 +1 @@\n-a\n+b\n")
    with pytest.raises(PatchError, match="second"):
        parse_diff(data.encode(), "patch")
