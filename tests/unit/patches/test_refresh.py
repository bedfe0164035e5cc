"""Refreshing the patches of a lock: its wheels stay, what moved is told, nothing is guessed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from patched_cells import Patched, patched_cell

from builder.cli import run
from builder.errors import LockError
from builder.indexes.settings import user_sources
from builder.locking.lock import Lock, load_for, read_lock, write_lock
from builder.locking.sums import is_edited
from builder.patches.refresh import drifts, seen_in_wheels
from builder.patches.refresh import refresh as refresh_cell
from builder.patches.status import Standing
from builder.patches.upstream import Hosting


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patched]:
    with patched_cell(tmp_path, monkeypatch) as found:
        yield found


def refresh(at: Patched) -> int:
    return run(["--matrix", str(at.matrix), "patch", "refresh"])


def locked(at: Patched) -> Lock:
    return load_for(at.cell, at.workspace.locks)


@pytest.fixture
def hosting(at: Patched) -> Hosting:
    return Hosting(user_sources(), at.workspace.cache)


def test_the_wheels_stay_and_the_second_run_changes_nothing(at: Patched, hosting: Hosting) -> None:
    wheels = read_lock(at.workspace.locks / "probe.toml").wheels
    at.declare()
    first = refresh_cell(at.workspace, at.cell, hosting)
    assert first.changed
    assert first.lock.wheels == wheels
    assert first.lock == locked(at)
    again = refresh_cell(at.workspace, at.cell, hosting)
    assert (again.changed, again.moved) == (False, ())


def test_a_push_is_told_and_accepted(at: Patched) -> None:
    at.declare()
    refresh(at)
    old = locked(at).patches[0]
    new_head = at.hosting.commit({"vllm/__init__.py": 'WORD = "pushed"\n'}, on="fix")
    at.hosting.open_pull(7, "fix")
    done = refresh_cell(at.workspace, at.cell, Hosting(user_sources(), at.workspace.cache))
    assert done.changed
    assert old.head in done.moved[0]
    assert locked(at).patches[0].head == new_head


def test_an_edited_lock_is_refused_and_not_summed_anew(at: Patched, hosting: Hosting) -> None:
    at.declare()
    path = at.workspace.locks / "probe.toml"
    path.write_text(path.read_text().replace("size = ", "size = 1", 1))
    with pytest.raises(LockError, match="edited by hand or badly merged"):
        refresh_cell(at.workspace, at.cell, hosting)
    assert is_edited(path)


def test_a_stale_lock_is_refused_with_the_command_that_renews_it(at: Patched, hosting: Hosting
                                                                 ) -> None:
    path = at.workspace.locks / "probe.toml"
    write_lock(at.workspace.locks, read_lock(path).model_copy(update={"intent": "sha256:other"}))
    before = path.read_bytes()
    with pytest.raises(LockError, match="is stale") as caught:
        refresh_cell(at.workspace, at.cell, hosting)
    assert caught.value.where == "probe"
    assert "./nox -s lock -- probe" in caught.value.next_step
    assert path.read_bytes() == before


def test_every_declared_patch_is_asked_for_once(at: Patched, hosting: Hosting) -> None:
    at.declare()
    assert [found.name for found in drifts([at.cell, at.cell], hosting)] == ["fix"]


def test_patches_are_judged_on_the_wheel_in_the_store_or_not_at_all(at: Patched, hosting: Hosting
                                                                    ) -> None:
    at.declare()
    done = refresh_cell(at.workspace, at.cell, hosting)
    (seen,) = seen_in_wheels(at.workspace, [done])["fix"]
    assert (seen.cell, seen.version, seen.standing) == ("probe", "1.0", Standing.APPLIES)
    (unseen,) = seen_in_wheels(at.workspace, [])["fix"]
    assert (unseen.cell, unseen.standing) == ("probe", None)
