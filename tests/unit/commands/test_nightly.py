"""``nightly``: the summary, the exit code, and when a cell is done."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from builder import labels as label
from builder.bases.state import read_bases
from builder.cli import run
from builder.commands import nightly
from builder.image import plan_image
from builder.locking.base_lock import load_bases, write_bases
from builder.locking.lock import load_for
from builder.nightly.alone import alone
from builder.nightly.cycle import Night, Ran
from builder.nightly.issues import FolderIssues
from builder.promotion import cell as promotion_cell
from builder.promotion.moving import MovingTag
from builder.workspace import Workspace, open_workspace
from tests.integration.test_build import make_workspace
from tests.unit.fake_repository import Memory, MemoryClient, put_layers

POLICY = '[promote]\nlevel = "2"\nhardware = ["cpu"]\n'


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    made = make_workspace(tmp_path / "w", weights=b"x")
    path = made.root / "matrix.toml"
    path.write_text(path.read_text() + POLICY)
    monkeypatch.setenv("SPARKYARD_CACHE", str(made.cache))
    return open_workspace(path)


def test_one_failure_is_the_exit_code_and_the_summary_has_every_cell(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    def failing(_matrix: Path) -> object:
        return lambda words: Ran(3, ("error: no connection",))

    monkeypatch.setattr(nightly, "runner", failing)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    matrix = str(workspace.root / "matrix.toml")
    assert run(["--matrix", matrix, "nightly", "--json"]) == 1
    base, night = json.loads(capsys.readouterr().out)
    assert (night["cell"], night["state"]) == ("probe", "failed: lock (exit code 3)")
    assert (base["cell"], base["state"]) == ("base-slim-amd64", "failed: base (exit code 3)")
    assert (workspace.cache / "nightly" / "probe.md").exists()
    assert night["why"] == ["no connection"]
    assert run(["--matrix", matrix, "nightly", "probe"]) == 1
    assert "updated" in capsys.readouterr().out


@pytest.mark.parametrize(("user", "option"), [(1000, ()), (0, ("--keep-bases",))])
def test_bases_stay_as_they_are_without_root_and_where_that_is_asked_for(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str], user: int, option: tuple[str, ...]) -> None:
    ran: list[str] = []

    def noting(_matrix: Path) -> object:
        return lambda words: (ran.append(words[0]), Ran(3))[1]

    monkeypatch.setattr(nightly, "runner", noting)
    monkeypatch.setattr("os.geteuid", lambda: user)
    run(["--matrix", str(workspace.root / "matrix.toml"), "nightly", *option])
    assert ran == ["lock"]
    assert ("needs root" in capsys.readouterr().err) is bool(user)


def test_a_night_that_is_interrupted_puts_the_base_back(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workspace.locks / "bases.toml"
    before = path.read_bytes()

    def interrupted(words: Sequence[str]) -> Ran:
        if words[0] == "lock":
            raise KeyboardInterrupt
        locked = load_bases(path)
        base = locked["slim", "linux/amd64"]
        write_bases(path, {**locked, base.key: base.model_copy(
            update={"packages": base.packages[1:]})})
        return Ran(0)

    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(KeyboardInterrupt):
        nightly.through(workspace, workspace.cells, interrupted,
                        FolderIssues(workspace.cache / "nightly"), keep_bases=False)
    assert path.read_bytes() == before


def test_a_second_night_at_once_changes_nothing_and_says_so(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(nightly, "runner", lambda _matrix: pytest.fail)
    with alone(workspace.cache / "nightly", workspace.root):
        assert run(["--matrix", str(workspace.root / "matrix.toml"), "nightly"]) == 2
    assert "another night is at work in this checkout" in capsys.readouterr().err


def test_a_command_runs_as_a_program_and_its_lines_are_kept(workspace: Workspace) -> None:
    ran = nightly.runner(workspace.root / "matrix.toml")(["plan", "probe"])
    assert (ran.code, ran.lines[1].split()[0]) == (0, "probe")
    assert nightly.runner(workspace.root / "matrix.toml")(["plan", "cpx"]).code == 2


def test_a_cell_is_done_when_its_candidate_is_of_these_inputs_and_a_tag_points_at_it(
        workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, cell = Memory(), workspace.cells[0]
    monkeypatch.setattr(promotion_cell, "Client", lambda _reference: MemoryClient(memory))
    assert not nightly.is_done(workspace, cell)
    base = read_bases(workspace).get((cell.base_name, cell.platform))
    assert base is not None
    inputs = plan_image(cell, load_for(cell, workspace.locks), base, "", "r", workspace.root,
                        "").inputs
    put_layers(memory, [], {label.INPUTS: "other"}, ["probe-next", "probe"])
    assert not nightly.is_done(workspace, cell)
    put_layers(memory, [], {label.INPUTS: inputs}, ["probe-next"])
    assert not nightly.is_done(workspace, cell)
    with monkeypatch.context() as rolled_back:
        rolled_back.setattr(MovingTag, "was_left", lambda *_: True)
        assert nightly.is_done(workspace, cell), "no night undoes a rollback"
    put_layers(memory, [], {label.INPUTS: inputs}, ["probe"])
    assert nightly.is_done(workspace, cell)


def test_the_summary_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    nights: Sequence[Night] = [Night("cpu", "promoted", changes=("a", "b", "c", "d", "e"))]
    nightly.show(nights)
    assert "a; b; c; 2 more changes" in capsys.readouterr().out
