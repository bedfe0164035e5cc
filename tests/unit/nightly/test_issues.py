"""One issue a cell: opened once, brought up to date, closed; in a folder and by gh."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from builder.errors import NetworkError, UsageError
from builder.nightly.issues import FolderIssues, GitHubIssues, Issues, title_of

GH = """#!/bin/sh
echo "$@" >> "$GH_CALLS"
case "$1 $2" in
  "issue list") cat "$GH_OPEN" ;;
  "issue create"|"issue edit") cat > "$GH_BODY" ;;
  "issue close") ;;
  *) echo "not logged in" >&2; exit 4 ;;
esac
"""


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "gh"
    program.parent.mkdir()
    program.write_text(GH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("GH_CALLS", "GH_OPEN", "GH_BODY"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "GH_OPEN").write_text("[]")
    return tmp_path


def test_in_a_folder_there_is_one_file_while_the_cell_fails(tmp_path: Path) -> None:
    issues: Issues = FolderIssues(tmp_path / "nightly")
    assert issues.settle("cpu") == ""
    assert issues.report("cpu", "first").startswith("opened")
    assert issues.report("cpu", "second").startswith("updated")
    (file,) = (tmp_path / "nightly").iterdir()
    assert file.read_text() == f"# {title_of('cpu')}\n\nsecond"
    assert issues.settle("cpu") == "closed cpu.md"
    assert list((tmp_path / "nightly").iterdir()) == []


def test_on_github_an_issue_is_never_doubled(gh: Path) -> None:
    issues: Issues = GitHubIssues()
    assert issues.settle("cpu") == ""
    assert issues.report("cpu", "first") == "opened an issue"
    (gh / "GH_OPEN").write_text(json.dumps([
        {"number": 9, "title": title_of("cpu")}, {"number": 7, "title": title_of("cpu")},
        {"number": 3, "title": title_of("cpu-arm64")}]))
    assert issues.report("cpu", "second") == "updated issue 7"
    assert (gh / "GH_BODY").read_text() == "second"
    assert issues.settle("cpu") == "closed issue 7"
    calls = (gh / "GH_CALLS").read_text()
    assert calls.count("issue create") == 1


@pytest.mark.parametrize("answer", ["no json", '[{"number": "x", "title": "y"}, 3]'])
def test_an_answer_that_is_no_list_is_an_error(gh: Path, answer: str) -> None:
    (gh / "GH_OPEN").write_text(answer)
    with pytest.raises(NetworkError, match="does not list"):
        GitHubIssues().report("cpu", "x")


def test_a_gh_that_fails_says_why(gh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_OPEN", str(gh / "missing"))
    with pytest.raises(NetworkError, match="gh could not be used"):
        GitHubIssues().report("cpu", "x")


def test_without_gh_a_night_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="gh is not installed") as caught:
        GitHubIssues()
    assert "leave the option out" in caught.value.next_step
