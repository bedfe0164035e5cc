"""A declared patch into a locked one: which commits, which bytes, or why there are none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from patch_wheels import diff
from patched_cells import FIRST, FIXED, Patched, patched_cell

from builder.cli import run
from builder.locking.lock import Lock, load_for, read_lock
from builder.patches.diffs import find

OWN = diff("vllm/__init__.py", FIRST, 'WORD = "own"\n').decode()


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patched]:
    with patched_cell(tmp_path, monkeypatch) as found:
        yield found


def refresh(at: Patched) -> int:
    return run(["--matrix", str(at.matrix), "patch", "refresh"])


def locked(at: Patched) -> Lock:
    return load_for(at.cell, at.workspace.locks)


def test_an_open_pull_request_is_locked_by_its_head_and_merge_base(at: Patched) -> None:
    start = at.hosting.git("rev-parse", "main").strip()
    at.hosting.commit({"vllm/other.py": "later\n"}, on="main")
    at.hosting.open_pull(7, "fix")
    at.declare()
    assert refresh(at) == 0
    patch = locked(at).patches[0]
    assert (patch.base, patch.head) == (start, at.hosting.git("rev-parse", "fix").strip())
    data = find(at.workspace.cache, patch.sha256)
    assert data is not None
    assert (b"+" + FIXED.encode()) in data
    assert b"other.py" not in data
    assert patch.size == len(data)


def test_a_merged_one_is_locked_by_its_merge_commit(at: Patched) -> None:
    commit = at.hosting.merge(7)
    at.declare()
    assert refresh(at) == 0
    assert locked(at).patches[0].head == commit


def test_one_that_was_merged_as_several_commits_is_not_taken_for_its_last(at: Patched) -> None:
    at.hosting.commit({"vllm/second.py": "two\n"}, "the second", on="fix")
    at.hosting.open_pull(7, "fix")
    at.hosting.commit({"vllm/other.py": "meanwhile\n"}, on="main")
    at.hosting.git("switch", "-q", "-c", "rebased", "fix")
    at.hosting.git("rebase", "-q", "main")
    merge = at.hosting.git("rev-parse", "rebased").strip()
    at.hosting.pulls[7].update(merged_at="2026-04-01", merge_commit_sha=merge, commits=2)
    at.declare()
    refresh(at)
    assert locked(at).patches[0].why == (
        f'it was merged as 2 commits; declare them as compare = "BASE...{merge}"')


@pytest.mark.parametrize("how", ["squashed", "with a merge commit"])
def test_two_commits_merged_as_one_are_that_one(at: Patched, how: str) -> None:
    at.hosting.commit({"vllm/second.py": "two\n"}, "the second", on="fix")
    at.hosting.open_pull(7, "fix")
    at.hosting.pulls[7]["commits"] = 2
    if how == "squashed":
        merge = at.hosting.merge(7)
    else:
        at.hosting.git("switch", "-q", "main")
        at.hosting.git("merge", "-q", "--no-ff", "-m", "Merge pull request #7", "fix")
        merge = at.hosting.git("rev-parse", "main").strip()
        at.hosting.pulls[7].update(merged_at="2026-04-01", merge_commit_sha=merge)
    at.declare()
    refresh(at)
    patch = locked(at).patches[0]
    assert patch.head == merge
    data = find(at.workspace.cache, patch.sha256) or b""
    assert data.count(b"diff --git") == 2


def test_commits_ranges_and_files(at: Patched) -> None:
    head = at.hosting.git("rev-parse", "fix").strip()
    (at.matrix.parent / "own.diff").write_text(OWN)
    at.declare("one", commit=head)
    at.declare("two", compare="main...fix")
    at.declare("three", file="own.diff")
    assert refresh(at) == 0
    one, two, three = locked(at).patches
    assert one.head == two.head == head
    assert one.sha256 == two.sha256 != three.sha256
    assert not three.head


@pytest.mark.parametrize("text", [None, "no diff at all\n"])
def test_a_file_that_is_no_patch_is_a_mistake_and_no_outage(at: Patched, text: str | None) -> None:
    if text is not None:
        (at.matrix.parent / "own.diff").write_text(text)
    at.declare(file="own.diff")
    before = read_lock(at.workspace.locks / "probe.toml")
    assert refresh(at) == 6
    assert read_lock(at.workspace.locks / "probe.toml") == before


def test_a_service_that_serves_no_diff_is_unresolved(at: Patched) -> None:
    at.declare()
    at.hosting.page = b"<html>please log in</html>\n"
    assert refresh(at) == 0
    assert "no git diff" in locked(at).patches[0].why


def test_a_first_commit_has_nothing_to_be_compared_with(at: Patched) -> None:
    first = at.hosting.git("rev-list", "--max-parents=0", "main").split()[-1]
    at.declare(commit=first)
    assert refresh(at) == 0
    assert locked(at).patches[0].why == "the commit has no parent to compare it with"
