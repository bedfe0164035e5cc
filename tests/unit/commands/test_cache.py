"""``cache``: what is shown, what a prune frees, and days that are no span of time."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from builder import cli
from builder.commands.cache import locked_digests
from builder.errors import LockError
from builder.locking.lock import LockedWheel
from builder.store.content_store import Store
from builder.store.prune import DAY_S
from builder.workspace import open_workspace
from tests.integration.test_build import make_workspace

MATRIX = str(Path(__file__).parents[3] / "matrix.toml")
LONG_AGO = time.time() - 100 * DAY_S


def add_wheel(store: Store, data: bytes) -> LockedWheel:
    """Add a wheel that nobody has used for a long time."""
    wheel = LockedWheel(name="a", version="1", file="a-1-py3-none-any.whl", index="default",
                        sha256=hashlib.sha256(data).hexdigest(), size=len(data))
    with store.temporary("w") as path:
        path.write_bytes(data)
        placed = store.add_wheel(wheel, path)
    os.utime(placed, (LONG_AGO, LONG_AGO))
    return wheel


@pytest.mark.parametrize("days", ["nan", "inf", "-inf", "-1", "1e400", "soon"])
def test_a_number_of_days_is_a_span_of_time(
        days: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.run(["--matrix", MATRIX, "cache", "prune", f"--days={days}", "--dry-run"])
    assert caught.value.code == 2
    assert "is not a number from 0 to 36500" in capsys.readouterr().err


def test_the_command_shows_and_prunes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path))
    loose = add_wheel(Store(tmp_path), b"loose")
    place = tmp_path / "wheels" / loose.sha256
    assert cli.run(["--matrix", MATRIX, "cache"]) == 0
    assert "wheels" in capsys.readouterr().out
    assert cli.run(["--matrix", MATRIX, "cache", "prune", "--dry-run"]) == 0
    assert "would free 5 B" in capsys.readouterr().err
    assert place.exists()
    assert cli.run(["--matrix", MATRIX, "cache", "prune"]) == 0
    assert "freed 5 B in 2 files" in capsys.readouterr().err
    assert not place.exists()


def test_showing_and_a_dry_run_change_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    for words in (["show"], ["show", "--dry-run"], ["prune", "--dry-run", "--all"]):
        assert cli.run(["--matrix", MATRIX, "cache", *words]) == 0
        assert list((tmp_path / "cache").iterdir()) == []


def test_wheels_that_a_lock_names_stay_and_a_damaged_lock_prunes_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    workspace = make_workspace(tmp_path / "work", weights=b"x")
    monkeypatch.setenv("SPARKYARD_CACHE", str(workspace.cache))
    matrix = workspace.root / "matrix.toml"
    wheels = list((workspace.cache / "wheels").rglob("*.whl"))
    for path in wheels:
        os.utime(path, (LONG_AGO, LONG_AGO))
    assert cli.run(["--matrix", str(matrix), "cache", "prune"]) == 0
    assert all(path.exists() for path in wheels)
    assert len(locked_digests(workspace)) == len(wheels)
    (workspace.locks / "probe.toml").write_text("[[")
    with pytest.raises(LockError):
        locked_digests(open_workspace(matrix))
    assert cli.run(["--matrix", str(matrix), "cache", "prune"]) == 3
    assert all(path.exists() for path in wheels)
    assert "probe.toml" in capsys.readouterr().err
