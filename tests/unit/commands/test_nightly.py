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
from builder.locking.lock import load_for
from builder.nightly.cycle import Night, Ran
from builder.promotion import cell as promotion_cell
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
    matrix = str(workspace.root / "matrix.toml")
    assert run(["--matrix", matrix, "nightly", "--json"]) == 1
    (night,) = json.loads(capsys.readouterr().out)
    assert (night["cell"], night["state"]) == ("probe", "failed: lock (exit code 3)")
    assert (workspace.cache / "nightly" / "probe.md").exists()
    assert run(["--matrix", matrix, "nightly", "probe"]) == 1
    assert "updated" in capsys.readouterr().out


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
    put_layers(memory, [], {label.INPUTS: inputs}, ["probe"])
    assert nightly.is_done(workspace, cell)


def test_the_summary_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    nights: Sequence[Night] = [Night("cpu", "promoted", changes=("a", "b", "c", "d", "e"))]
    nightly.show(nights)
    assert "a; b; c; 2 more changes" in capsys.readouterr().out
