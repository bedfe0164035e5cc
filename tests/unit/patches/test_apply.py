"""Applying against git itself: the same files, or both refuse; and never a part of a patch."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from builder.errors import PatchError
from builder.patches.apply import Applied, Blob, apply_files
from builder.patches.diff import parse_diff
from builder.patches.filepatch import reverse

Files = dict[str, bytes]


class Memory:
    """A tree in memory."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def read(self, path: str) -> Blob | None:
        return Blob(self.files[path]) if path in self.files else None

    def is_folder(self, path: str) -> bool:
        return any(name.startswith(f"{path}/") for name in self.files)


def git(folder: Path, *words: str, data: bytes | None = None, good: bool = True) -> bytes:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
                   "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    done = subprocess.run(["git", "-c", "core.autocrlf=false", *words], cwd=folder, input=data,
                          env=environment, capture_output=True, check=False)
    if good:
        assert done.returncode == 0, done.stderr
        return done.stdout
    return b"" if done.returncode == 0 else done.stderr or b"refused"


def write(folder: Path, files: Files) -> None:
    for entry in folder.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def git_diff(repo: Path, before: Files, after: Files, *options: str) -> bytes:
    trees = []
    for files in (before, after):
        write(repo, files)
        git(repo, "add", "-A")
        trees.append(git(repo, "write-tree").decode().strip())
    return git(repo, "diff", "--no-color", *options, *trees)


def by_git(folder: Path, files: Files, diff: bytes) -> Files | None:
    write(folder, files)
    if git(folder, "apply", "-", data=diff, good=False):
        return None
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


def result(files: Files, applied: Applied) -> Files | None:
    if applied.conflicts:
        assert applied.changes == {}
        return None
    merged = {**{name: Blob(data) for name, data in files.items()}, **applied.changes}
    return {name: blob.data for name, blob in merged.items() if blob}


def by_us(files: Files, diff: bytes) -> Files | None:
    try:
        return result(files, apply_files(parse_diff(diff), Memory(files)))
    except PatchError:
        return None


@pytest.fixture(scope="session")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repo")
    git(folder, "init", "-q")
    return folder


@pytest.fixture(scope="session")
def field(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("field")


# Few different lines, so that a hunk fits in several places; ends and kinds of line that differ.
LINE = st.sampled_from([b"a", b"b", b"c", b"", b"  x", b"x\r", b"--- a/x", b"+++ b/y", b"\xff",
                        b"@@ -1 +1 @@", b"\\ No newline at end of file"])
TEXT = st.builds(lambda lines, last: b"".join(line + b"\n" for line in lines) + last,
                 st.lists(LINE, max_size=14), st.sampled_from([b"", b"", b"a", b"x\r"]))
NAME = st.sampled_from(["f.py", "p/g.py", "p/with space", "p/q/é.py", 'p/"quoted"'])
TREE = st.dictionaries(NAME, TEXT, min_size=1, max_size=3)


@st.composite
def edited(draw: st.DrawFn, files: Files) -> Files:
    """Change a few lines here and there, sometimes a whole file."""
    after = dict(files)
    for name in files:
        lines = after[name].splitlines(keepends=True)
        for _ in range(draw(st.integers(0, 2))):
            at = draw(st.integers(0, len(lines)))
            lines[at:at + draw(st.integers(0, 2))] = [
                line + b"\n" for line in draw(st.lists(LINE, max_size=2))]
        after[name] = b"".join(lines)
        if draw(st.integers(0, 9)) == 0:
            del after[name]
    if draw(st.integers(0, 5)) == 0:
        after.setdefault(draw(NAME), draw(TEXT))
    return after


@st.composite
def cases(draw: st.DrawFn) -> tuple[Files, Files, Files, int]:
    before = draw(TREE)
    return before, draw(edited(before)), draw(edited(before)), draw(st.sampled_from([3, 3, 1, 0]))


RELAXED = settings(max_examples=int(os.environ.get("SPARKYARD_FUZZ_EXAMPLES", "100")),
                   suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@RELAXED
@given(cases())
@example(({"f.py": b"a\nb\na\nb\n"}, {"f.py": b"a\nb\na\nc\nb\n"}, {"f.py": b"c\na\nb\n"}, 3))
@example(({"f.py": b"a"}, {"f.py": b"a\na"}, {"f.py": b"a\na"}, 3))
def test_the_same_as_git_on_files_that_have_drifted(
        repo: Path, field: Path, case: tuple[Files, Files, Files, int]) -> None:
    before, after, drifted, context = case
    diff = git_diff(repo, before, after, f"-U{context}", "-M30%", "--text")
    if diff:
        ours, theirs = by_us(drifted, diff), by_git(field, drifted, diff)
        # Git takes "a" without a newline for the line "a" in the middle of a file, and joins two
        # lines: damage that is refused here.
        assert ours == theirs or (ours is None and b"\\ No newline" in diff)
        if context == 3:
            assert by_us(before, diff) == after


@RELAXED
@given(cases())
def test_what_is_undone_is_as_it_was(repo: Path, field: Path,
                                     case: tuple[Files, Files, Files, int]) -> None:
    before, after, *_ = case
    diff = git_diff(repo, before, after, "--text")
    if diff:
        undone = apply_files(reverse(parse_diff(diff)), Memory(after))
        assert result(after, undone) == before


@RELAXED
@given(cases(), st.data())
def test_a_damaged_diff_is_refused_or_read_as_git_reads_it(
        repo: Path, field: Path, case: tuple[Files, Files, Files, int], data: st.DataObject
        ) -> None:
    before, after, *_ = case
    lines = git_diff(repo, before, after, "--text").splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 2)) if lines else 0):
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at:at + 1] = data.draw(st.sampled_from([
            [], [lines[at], lines[at]], [lines[at].rstrip(b"\n")], [b"+more\n", lines[at]],
            [b"-less\n"], [b"\n"], [lines[at].replace(b"1", b"2")]]))
    damaged = b"".join(lines)
    ours = by_us(before, damaged)
    if ours is not None:
        assert ours == by_git(field, before, damaged)
