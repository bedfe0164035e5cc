"""A series as commits in a checkout: order, native files, hashes, and nothing half done."""

from __future__ import annotations

from pathlib import Path

import pytest
from hosting_server import HostingServer
from patch_wheels import diff

from builder.errors import PatchError, UsageError
from builder.patches.series import commit_series
from builder.patches.status import Candidate

NATIVE = diff("csrc/a.cu", "a\n", "b\n")
PYTHON = diff("vllm/a.py", "one\n", "two\n")
TESTS = diff("tests/t.py", "old\n", "new\n")


@pytest.fixture
def source(tmp_path: Path) -> HostingServer:
    folder = tmp_path / "source"
    folder.mkdir()
    repository = HostingServer(folder)
    repository.git("init", "-q", "-b", "main")
    repository.commit({"csrc/a.cu": "a\n", "vllm/a.py": "one\n", "gone.py": "x\n"}, "start")
    return repository


def series(*diffs: bytes, required: bool = True) -> list[Candidate]:
    return [Candidate(f"o/r#{number}", str(number), data, required)
            for number, data in enumerate(diffs, 1)]


def test_one_commit_a_patch_native_files_too_and_the_checkout_stays(source: HostingServer) -> None:
    done = commit_series(source.folder, "HEAD", "sparkyard/cell", series(NATIVE + TESTS, PYTHON))
    log = source.git("log", "--format=%s %an", "main..sparkyard/cell").splitlines()
    assert log == ["o/r#2 sparkyard", "o/r#1 sparkyard"]
    assert source.git("show", "sparkyard/cell:csrc/a.cu") == "b\n"
    assert [hash_ for _, hash_ in done.commits][-1] == source.git(
        "rev-parse", "sparkyard/cell").strip()
    assert source.git("status", "--porcelain") == ""
    assert source.git("branch", "--show-current").strip() == "main"


def test_the_same_series_gives_the_same_hashes(source: HostingServer) -> None:
    one = commit_series(source.folder, "HEAD", "one", series(NATIVE, PYTHON))
    two = commit_series(source.folder, "HEAD", "two", series(NATIVE, PYTHON))
    assert one.commits == two.commits


def test_a_required_conflict_leaves_no_branch(source: HostingServer) -> None:
    bad = diff("vllm/a.py", "another\n", "third\n")
    with pytest.raises(PatchError, match=r"expected \| another"):
        commit_series(source.folder, "HEAD", "sparkyard/cell", series(NATIVE, bad))
    assert source.git("branch", "--format=%(refname:short)").split() == ["main"]


def test_optional_ones_are_left_out_with_a_word_and_the_rest_goes_on(source: HostingServer
                                                                    ) -> None:
    there = diff("vllm/a.py", "zero\n", "one\n")
    chosen = [*series(there, diff("vllm/a.py", "x\n", "y\n"), required=False),
              Candidate("o/r#9", "9", None, required=False, why="no connection"), *series(PYTHON)]
    done = commit_series(source.folder, "main", "b", chosen)
    assert [name for name, _ in done.commits] == ["o/r#1"]
    assert ["already in" in done.words[0], "expected" in done.words[1],
            "no connection" in done.words[2]] == [True] * 3


def test_deletions_and_reverts(source: HostingServer) -> None:
    gone = (b"diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n"
            b"+++ /dev/null\n@@ -1 +0,0 @@\n-x\n")
    undo = Candidate("revert of o/r#3", "revert.3", diff("vllm/a.py", "zero\n", "one\n"), undo=True)
    commit_series(source.folder, "HEAD", "b", [*series(gone), undo])
    assert source.git("ls-tree", "--name-only", "b").split() == ["csrc", "vllm"]
    assert source.git("show", "b:vllm/a.py") == "zero\n"


@pytest.mark.parametrize("name", ["no-such-branch", "--all"])
def test_what_is_no_commit(source: HostingServer, name: str) -> None:
    with pytest.raises(UsageError, match="no commit"):
        commit_series(source.folder, name, "b", series(PYTHON))


def test_what_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no git checkout"):
        commit_series(tmp_path / "nowhere", "HEAD", "b", series(PYTHON))
