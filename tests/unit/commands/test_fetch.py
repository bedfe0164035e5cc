"""``fetch``: the wheels of the locked cells into the cache, and what is said of each cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.cli import run
from builder.locking.lock import Lock, load_for
from builder.store.content_store import Store
from builder.workspace import Workspace
from tests.integration.test_build import make_workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Return a workspace whose one cell is locked and whose wheels are all in the cache."""
    made = make_workspace(tmp_path / "work", weights=b"x")
    monkeypatch.setenv("SPARKYARD_CACHE", str(made.cache))
    return made


def fetch(workspace: Workspace, *cells: str) -> int:
    return run(["--matrix", str(workspace.root / "matrix.toml"), "fetch", *cells])


def lock_of(workspace: Workspace) -> Lock:
    return load_for(workspace.cells[0], workspace.locks)


@pytest.mark.parametrize("cells", [(), ("probe",), ("pro*",)])
def test_wheels_in_the_cache_are_counted_and_not_fetched(
        workspace: Workspace, cells: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert fetch(workspace, *cells) == 0
    row = capsys.readouterr().out.splitlines()[-1].split()
    count = str(len(lock_of(workspace).wheels))
    assert row[:2] == ["probe", count]
    assert row[4:6] == [count, "0"], "from the cache, fetched"


def test_without_a_name_cells_without_a_lock_are_left_out(
        workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace.locks / "probe.toml").unlink()
    assert fetch(workspace) == 0
    assert "probe" not in capsys.readouterr().out


def test_a_named_cell_without_a_lock_is_an_error_with_the_command(
        workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace.locks / "probe.toml").unlink()
    assert fetch(workspace, "probe") == 3
    assert "./nox -s lock -- probe" in capsys.readouterr().err


def test_a_misspelt_cell_is_refused_with_what_was_meant(
        workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert fetch(workspace, "prob") == 2
    assert 'perhaps you meant "probe"' in capsys.readouterr().err


def test_a_wheel_that_no_index_has_is_one_network_error(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    wheel = lock_of(workspace).wheels[0]
    Store(workspace.cache).wheel_path(wheel).unlink()
    monkeypatch.setenv("UV_DEFAULT_INDEX", (workspace.root / "empty").as_uri())
    assert fetch(workspace, "probe") == 4
    assert wheel.file in capsys.readouterr().err
