"""What became of patches upstream, and the edits of the matrix that follow."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from patched_cells import FIRST, Patched, patched_cell

from builder.cli import run
from builder.indexes.http import Pace
from builder.indexes.settings import Sources
from builder.matrix.patch import Patch
from builder.patches.drift import Seen, drift, proposals, successor
from builder.patches.status import Standing
from builder.patches.upstream import Hosting

FIX = Patch(repository="owner/name", pull=7, reason="x")


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patched]:
    with patched_cell(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def asks(at: Patched) -> Hosting:
    return Hosting(Sources(default_index=""), at.workspace.cache, api=at.hosting.url, token="",
                   pace=Pace(attempts=1))


def test_open(asks: Hosting) -> None:
    found = drift("fix", FIX, asks)
    assert (found.state, found.detail) == ("open", "Fix the word")


def test_merged_and_first_in_which_release(at: Patched, asks: Hosting) -> None:
    at.hosting.git("tag", "v0.9")
    at.hosting.merge(7, "2026-04-01T00:00:00Z")
    at.hosting.git("tag", "v1.1", "main")
    at.hosting.git("tag", "v1.0.1", "main~1")  # made after the merge, from before it
    at.hosting.releases = [{"tag_name": "v0.9", "published_at": "2026-03-01T00:00:00Z"},
                           {"tag_name": "v1.1", "published_at": "2026-05-01T00:00:00Z"},
                           {"tag_name": "v1.0.1", "published_at": "2026-04-02T00:00:00Z"}]
    found = drift("fix", FIX, asks)
    assert (found.state, found.detail) == ("merged", "2026-04-01, first in v1.1")
    assert not at.hosting.asked("v0.9")


def test_merged_and_not_released(at: Patched, asks: Hosting) -> None:
    at.hosting.merge(7)
    assert drift("fix", FIX, asks).detail.endswith("in no release yet")


@pytest.mark.parametrize(("comments", "detail"), [
    (["Superseded by #12, thanks"], "superseded by #12"), ([], "no reason given"),
])
def test_closed(at: Patched, asks: Hosting, comments: list[str], detail: str) -> None:
    at.hosting.pulls[7]["state"] = "closed"
    at.hosting.comments[7] = comments
    found = drift("fix", FIX, asks)
    assert (found.state, found.detail) == ("closed", detail)


def test_unreachable_and_fixed(at: Patched, asks: Hosting) -> None:
    assert drift("x", Patch(repository="owner/name", pull=9, reason="x"), asks).state == \
        "unreachable"
    assert drift("x", Patch(file="a.diff", reason="x"), asks).state == "fixed"


@pytest.mark.parametrize(("text", "number"), [
    ("Closing in favor of #41", "41"), ("replaced by https://x.example/o/r/pull/42", "42"),
    ("duplicate of #43", "43"), ("see #44", ""), ("this supersedes nothing; fixes #45", ""),
    ("superseded by #7", ""),
])
def test_the_successor_is_read_from_what_people_write(text: str, number: str) -> None:
    assert successor([text], 7) == number


def at_versions(*pairs: tuple[str, Standing | None]) -> list[Seen]:
    return [Seen(f"cell{number}", version, standing)
            for number, (version, standing) in enumerate(pairs)]


def test_proposals() -> None:
    patches = {"gone": FIX, "older": Patch(repository="o/r", pull=8, versions=">=0.19", reason="x"),
               "needed": FIX, "mixed": FIX, "unseen": FIX, "not.judged": FIX}
    edits = list(proposals(patches, {
        "gone": at_versions(("0.20.2", Standing.UPSTREAM)),
        "older": at_versions(("0.19.0", Standing.APPLIES), ("0.19.1", Standing.SUPERSEDED)),
        "needed": at_versions(("0.19.0", Standing.APPLIES), ("0.20.2", Standing.CONFLICT)),
        "mixed": at_versions(("0.19.1", Standing.APPLIES), ("0.19.0", Standing.UPSTREAM)),
        "not.judged": at_versions(("0.19.0", None), ("0.20.2", Standing.UPSTREAM))}))
    assert edits[0].startswith("delete [patches.gone]  # cell0 0.20.2: already upstream")
    assert edits[1].startswith('[patches.older] versions = ">=0.19,<0.19.1"')
    assert edits[2].startswith("[patches.mixed] name the versions or images")
    assert edits[3].startswith('[patches."not.judged"] versions = "<0.20.2"')
    assert len(edits) == 4


def test_refresh_says_it_all(at: Patched, capsys: pytest.CaptureFixture[str]) -> None:
    at.hosting.commit({"vllm/__init__.py": 'WORD = "of the past"\n'}, on="past")
    at.declare("there", commit=at.hosting.commit({"vllm/__init__.py": FIRST}, on="past"))
    at.declare("needed")
    assert run(["--matrix", str(at.matrix), "patch", "refresh", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [one["state"] for one in said["patches"]] == ["fixed", "open"]
    assert said["cells"]["probe"]["changed"] is True
    assert said["proposals"] == ["delete [patches.there]  # probe 1.0: already upstream"]
    assert run(["--matrix", str(at.matrix), "patch", "refresh"]) == 0
    text = capsys.readouterr().out
    assert "Fix the word" in text
    assert "unchanged" in text


def test_what_lies_in_no_store_may_be_needed(at: Patched, capsys: pytest.CaptureFixture[str]
                                             ) -> None:
    at.hosting.commit({"vllm/__init__.py": 'WORD = "of the past"\n'}, on="past")
    at.declare("there", commit=at.hosting.commit({"vllm/__init__.py": FIRST}, on="past"))
    for path in (at.workspace.cache / "wheels").rglob("*.whl"):
        path.unlink()
    assert run(["--matrix", str(at.matrix), "patch", "refresh", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["proposals"] == []


def test_a_patch_that_no_cell_needs_is_named(at: Patched, capsys: pytest.CaptureFixture[str]
                                             ) -> None:
    at.declare()
    at.declare("misspelt", package="vlm")
    assert run(["--matrix", str(at.matrix), "patch", "refresh"]) == 0
    assert "no wheel of these cells needs misspelt" in capsys.readouterr().err


def test_locks_that_cannot_be_written_are_no_traceback(
        at: Patched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("builder.patches.refresh.write_lock", refuse)
    at.declare()
    assert run(["--matrix", str(at.matrix), "patch", "refresh"]) == 2
    said = capsys.readouterr().err
    assert "the lock cannot be written: Read-only file system" in said
    assert "needs fix" not in said
