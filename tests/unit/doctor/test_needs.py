"""What a recipe's file says about the host that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.doctor.needs import cache_folders, memory_share, need_of
from builder.recipes.load import load_recipe
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[3]


def test_what_a_recipe_needs_comes_from_its_file() -> None:
    workspace = open_workspace(ROOT / "matrix.toml")
    large = need_of(workspace, load_recipe(ROOT, "gemma4-26b-a4b-fp8"))
    assert (large.memory_share, large.cuda) == (0.7, "13.0")
    assert large.model == 50_400_000_000
    tiny = need_of(workspace, load_recipe(ROOT, "tiny-gemma4"))
    assert (tiny.memory_share, tiny.cuda, tiny.model) == (0.0, "", 0)


def test_a_recipe_of_an_image_that_the_matrix_lacks_needs_no_gpu_that_is_known() -> None:
    workspace = open_workspace(ROOT / "matrix.toml")
    elsewhere = load_recipe(ROOT, "gemma4-26b-a4b-fp8").model_copy(update={"image": "of-another"})
    need = need_of(workspace, elsewhere)
    assert (need.memory_share, need.cuda, need.image) == (0.0, "", 0)
    assert need.model == 50_400_000_000


def test_the_folders_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = open_workspace(ROOT / "matrix.toml")
    monkeypatch.setenv("HF_HOME", "/models")
    assert cache_folders(workspace) == (workspace.cache, Path("/models"))
    monkeypatch.setenv("HF_HOME", "~/models")
    assert cache_folders(workspace)[1] == Path.home() / "models"


@pytest.mark.parametrize(("word", "share"), [
    ("0.5", 0.5), (".5", 0.5), ("1", 1.0), ("0.9.1", 0.9), (".", 0.92), ("x", 0.92)])
def test_a_share_that_is_no_number_is_no_traceback(word: str, share: float) -> None:
    recipe = load_recipe(ROOT, "gemma4-26b-a4b-fp8")
    given = recipe.model_copy(update={"serve": ("--gpu-memory-utilization", word)})
    assert memory_share(given) == share
