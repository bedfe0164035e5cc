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
    assert ["already upstream" in done.warnings[0], "expected" in done.warnings[1],
            "no connection" in done.warnings[2]] == [True] * 3


def test_deletions_and_reverts(source: HostingServer) -> None:
    gone = (b"diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n"
            b"+++ /dev/null\n@@ -1 +0,0 @@\n-x\n")
    undo = Candidate("revert of o/r#3", "revert.3", diff("vllm/a.py", "zero\n", "one\n"), undo=True)
    commit_series(source.folder, "HEAD", "b", [*series(gone), undo])
    assert source.git("ls-tree", "--name-only", "b").split() == ["csrc", "vllm"]
    assert source.git("show", "b:vllm/a.py") == "zero\n"


def test_one_that_is_in_already_goes_in_no_second_time(source: HostingServer) -> None:
    """Its lines are repeated, so that it would fit once more further down."""
    source.commit({"vllm/a.py": "x\nnew\ny\n" + "-\n" * 9 + "x\ny\n"})
    done = commit_series(source.folder, "HEAD", "b",
                         series(diff("vllm/a.py", "x\ny\nz\n", "x\nnew\ny\nz\n").replace(
                             b"@@ -1,3 +1,4 @@", b"@@ -1,2 +1,3 @@").replace(b" z\n", b"")))
    assert not done.commits
    assert "already upstream" in done.warnings[0]


def test_what_is_refused_in_an_optional_one_hurts_that_one_only(source: HostingServer) -> None:
    binary = (b"diff --git a/x.png b/x.png\nnew file mode 100644\nGIT binary patch\nliteral 0\n"
              b"HcmV?d00001\n\n")
    chosen = [*series(binary, b"no diff\n", required=False), *series(PYTHON)]
    done = commit_series(source.folder, "HEAD", "b", chosen)
    assert len(done.commits) == 1
    assert ["binary hunk" in done.warnings[0], "no git diff" in done.warnings[1]] == [True, True]


def test_one_of_which_nothing_remains_is_no_empty_commit(source: HostingServer) -> None:
    with pytest.raises(PatchError, match="nothing of it remains"):
        commit_series(source.folder, "HEAD", "b", series(TESTS))
    assert not commit_series(source.folder, "HEAD", "b", series(TESTS, required=False)).commits


@pytest.mark.parametrize("path", ["link", "link/new.py", "module", "module/new.py"])
def test_nothing_is_put_in_the_place_of_a_link_or_submodule(source: HostingServer, path: str
                                                            ) -> None:
    (source.folder / "link").symlink_to("vllm")
    head = source.git("rev-parse", "HEAD").strip()
    source.git("add", "link")
    source.git("update-index", "--add", "--cacheinfo", f"160000,{head},module")
    source.git("commit", "-q", "-m", "both")
    with pytest.raises(PatchError, match="symbolic link or a submodule"):
        commit_series(source.folder, "HEAD", "b", series(diff(path, None, "x\n")))


def test_a_branch_that_is_checked_out_is_not_moved_beneath_its_files(
        source: HostingServer, tmp_path: Path) -> None:
    commit_series(source.folder, "HEAD", "b", series(PYTHON))
    source.git("worktree", "add", "-q", str(tmp_path / "tree"), "b")
    with pytest.raises(UsageError, match="is checked out"):
        commit_series(source.folder, "HEAD", "b", series(NATIVE))
    source.git("worktree", "remove", str(tmp_path / "tree"))
    assert commit_series(source.folder, "HEAD", "b", series(NATIVE)).commits


def test_a_branch_with_commits_of_the_users_is_kept(source: HostingServer) -> None:
    mine = source.commit({"vllm/a.py": "mine\n"}, on="b")
    source.git("switch", "-q", "main")
    with pytest.raises(UsageError, match="not from this command"):
        commit_series(source.folder, "main", "b", series(NATIVE))
    assert source.git("rev-parse", "b").strip() == mine
    source.git("branch", "empty", "main")
    assert commit_series(source.folder, "main", "empty", series(NATIVE)).commits


def test_what_git_refuses_is_said_in_its_words(source: HostingServer) -> None:
    source.git("branch", "sparkyard")
    with pytest.raises(UsageError, match=r"git failed: .*'refs/heads/sparkyard' exists"):
        commit_series(source.folder, "HEAD", "sparkyard/cell", series(PYTHON))
    with pytest.raises(UsageError, match="git failed"):
        commit_series(source.folder, "HEAD", "b", series(diff("vllm/git~1", None, "x\n")))


def test_names_by_sha256_are_said_to_be_the_trouble(tmp_path: Path) -> None:
    repository = HostingServer(tmp_path)
    repository.git("init", "-q", "--object-format=sha256", "-b", "main")
    repository.commit({"vllm/a.py": "one\n"})
    with pytest.raises(UsageError, match="sha256"):
        commit_series(tmp_path, "HEAD", "b", series(PYTHON))


@pytest.mark.parametrize("name", ["no-such-branch", "--all"])
def test_what_is_no_commit(source: HostingServer, name: str) -> None:
    with pytest.raises(UsageError, match="no commit"):
        commit_series(source.folder, name, "b", series(PYTHON))


def test_what_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a git checkout"):
        commit_series(tmp_path / "nowhere", "HEAD", "b", series(PYTHON))
