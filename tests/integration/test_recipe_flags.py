"""A recipe judged by two real versions of vLLM: a flag of the newer one, on the older one."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.locking.lock import load_for
from builder.matrix.cells import select
from builder.recipes.check import Finding, Vllms, check, vllm_wheel
from builder.recipes.load import load_recipe
from builder.recipes.rules import Severity
from builder.store.content_store import Store
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[2]
OLDER, NEWER = ("tf5", "0.20.2"), ("cpu", "0.32.0")
FLAG = "--device-ids"  # 0.32 has it, 0.20.2 does not


def test_a_flag_of_0_32_in_a_recipe_for_0_20_2_is_named() -> None:
    workspace = open_workspace(ROOT / "matrix.toml")
    cells = select(workspace.cells, [OLDER[0], NEWER[0]], None)
    locks = {cell.id: load_for(cell, workspace.locks) for cell in cells}
    vllms = Vllms(Store(workspace.cache), list(locks.values()))
    for cell, version in (OLDER, NEWER):
        wheel = vllm_wheel(locks[cell])
        assert wheel is not None
        assert wheel.version == version
        if vllms.sources(wheel) is None:
            pytest.skip(f"the wheel of vLLM {version} is not in the cache: fetch {cell}")
    recipe = load_recipe(ROOT, "gemma4-31b-fp8")
    cell = next(cell for cell in cells if cell.id == OLDER[0])
    assert check(recipe, cell, locks[cell.id], vllms) == []
    wrong = recipe.model_copy(update={"serve": (*recipe.serve, FLAG, "0")})
    assert check(wrong, cell, locks[cell.id], vllms) == [Finding(
        check="flag", severity=Severity.ERROR, what=f"vLLM 0.20.2: there is no flag {FLAG}",
        next_step="vLLM 0.32.0 has it")]
