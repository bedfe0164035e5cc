"""Decisions of a checkout: from its matrix, its lock, its recipes and its patches."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled_cells import compiled_workspace

from builder.bases.state import read_bases
from builder.locking.lock import load_published
from builder.wheels.decision import Take
from builder.wheels.estimate import Machine
from builder.wheels.plan import decisions, plan_cell
from builder.wheels.recipe import load_recipes


def test_the_plan_of_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = compiled_workspace(tmp_path, monkeypatch)
    cell, recipes = workspace.cells[0], load_recipes(workspace.root)
    lock, bases = load_published(cell, workspace.locks), read_bases(workspace)
    (found,) = plan_cell(workspace, cell, lock, bases, recipes, Machine(2, 4_000_000_000))
    assert (found.package, found.take, found.jobs, found.seconds) == (
        "spam", Take.REBUILD, 2, 0.5)
    (small,) = plan_cell(workspace, cell, lock, bases, recipes, Machine(2, 1_050_000_000))
    assert not small.fits


def test_nothing_is_read_where_nothing_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                   ) -> None:
    workspace = compiled_workspace(tmp_path, monkeypatch, wheels='"published"')
    cell = workspace.cells[0]
    monkeypatch.setattr("builder.wheels.plan.load_series", lambda *_, **__: pytest.fail("read"))
    assert decisions(workspace, cell, load_published(cell, workspace.locks),
                     read_bases(workspace), {}, strict=True) == []
