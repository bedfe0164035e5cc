"""``wheels``: plan, status and index at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiled_cells import compiled_workspace, declare
from compiled_extension import Gcc

from builder.bases.state import read_bases
from builder.cli import run
from builder.locking.compiled import compiled_entry, with_compiled
from builder.locking.lock import load_published, write_lock
from builder.store.content_store import Store
from builder.wheels.plan import decisions
from builder.wheels.recipe import load_recipes
from builder.wheels.stage import job_for, run_job
from builder.workspace import Workspace


def wheels(workspace: Workspace, *words: str) -> int:
    return run(["--matrix", str(workspace.root / "matrix.toml"), "wheels", *words])


def compile_all(workspace: Workspace) -> None:
    """Compile what the plan says with gcc, and lock it."""
    cell, store, bases = workspace.cells[0], Store(workspace.cache), read_bases(workspace)
    lock, recipes = load_published(cell, workspace.locks), load_recipes(workspace.root)
    base = bases.get((cell.base_name, cell.platform))
    assert base
    for each in decisions(workspace, cell, lock, bases, recipes, strict=True):
        assert each.recipe
        job = job_for(cell, lock, each.decision, each.recipe, base, each.series, Gcc(), store)
        outcome = run_job(workspace.registry, job, Gcc(), store)
        entry = compiled_entry(each.decision.wheel, job.key, each.decision.targets,
                               [patch.sha256 for patch in job.native.applied])
        write_lock(workspace.locks, with_compiled(lock, entry, outcome.wheel))


def test_plan_says_what_why_and_how_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    workspace = compiled_workspace(tmp_path, monkeypatch)
    assert wheels(workspace, "plan", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["packages"]
    assert (found["take"], found["targets"], found["locked"]) == ("rebuild", ["_answer"], "")
    assert found["why"] == "images/spam.diff touches csrc/answer.c"
    assert found["seconds"] > 0
    compile_all(workspace)
    assert wheels(workspace, "plan") == 0
    shown = capsys.readouterr()
    assert "1.0+sy.answer.host.k" in shown.out
    assert "times are estimates for this machine" in shown.err


def test_plan_without_anything_to_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    workspace = compiled_workspace(tmp_path, monkeypatch, wheels='"published"')
    assert wheels(workspace, "plan") == 0
    assert "taken as it is published" in capsys.readouterr().err


def test_a_wrong_target_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    workspace = compiled_workspace(tmp_path, monkeypatch, wheels='["_anser"]')
    assert wheels(workspace, "plan") == 2
    assert 'there is no target "_anser"' in capsys.readouterr().err


def test_status_and_index_show_what_was_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    workspace = compiled_workspace(tmp_path, monkeypatch)
    assert wheels(workspace, "index", "--output", str(tmp_path / "index")) == 2
    assert "no lock of these cells has a compiled wheel" in capsys.readouterr().err
    compile_all(workspace)
    assert wheels(workspace, "status", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["compiled"]
    assert found["cells"] == ["probe"]
    assert wheels(workspace, "status") == 0
    assert "spam/_answer.abi3.so" in capsys.readouterr().out
    assert wheels(workspace, "index", "--output", str(tmp_path / "index")) == 0
    (made,) = (tmp_path / "index/files").glob("*.whl")
    assert made.name in (tmp_path / "index/simple/spam/index.html").read_text().replace("%2B", "+")
    declare(workspace.root / "matrix.toml", '"published"')
    assert wheels(workspace, "index", "--output", str(tmp_path / "index")) == 3
    assert "takes the published wheel since then" in capsys.readouterr().err


def test_status_makes_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = compiled_workspace(tmp_path, monkeypatch)
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "new"))
    assert wheels(workspace, "status") == 0
    assert not (tmp_path / "new").exists()


def test_a_compile_needs_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                               capsys: pytest.CaptureFixture[str]) -> None:
    workspace = compiled_workspace(tmp_path, monkeypatch)
    with pytest.raises(SystemExit) as caught:
        wheels(workspace, "build", "probe", "--jobs", "0")
    assert caught.value.code == 2
    assert "'0' is not a whole number from 1 to 1024" in capsys.readouterr().err
