"""Recipes: the committed ones are good, and what may not stand in one is refused by name."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from builder.errors import ConfigError
from builder.matrix.load import load_matrix
from builder.recipes.load import load_recipe, parse_recipe, recipe_names
from builder.recipes.models import Recipe

ROOT = Path(__file__).parents[3]
NAMES = recipe_names(ROOT)
SMALL: dict[str, Any] = {
    "schema": 1, "description": "x", "family": "gemma4", "image": "cpu",
    "serve": ["--enforce-eager"],
    "model": {"path": "tests/fixtures/tiny-gemma4", "parameters_billion": 1, "active_billion": 1},
}


def small(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SMALL), **changes}


def problems(raw: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse_recipe(raw, "x")
    return {problem.where: f"{problem.what} {problem.next_step}"
            for problem in caught.value.problems}


@pytest.mark.parametrize("name", NAMES)
def test_a_committed_recipe_is_good_and_its_image_is_in_the_matrix(name: str) -> None:
    recipe = load_recipe(ROOT, name)
    assert recipe.image in load_matrix(ROOT / "matrix.toml").images
    assert recipe.log.must_show
    assert all(figure.where != "gb10" for figure in recipe.published)  # none was measured there


def test_there_is_one_for_each_gemma_4_model_of_the_field() -> None:
    assert {"gemma4-26b-a4b-fp8", "gemma4-26b-a4b-nvfp4", "gemma4-26b-a4b-fp8-mtp",
            "gemma4-31b-fp8", "gemma4-31b-nvfp4", "gemma4-31b-awq4-light",
            "gemma4-31b-awq4-push", "tiny-gemma4"} <= set(NAMES)


def test_the_moe_in_nvfp4_must_run_on_marlin() -> None:
    recipe = load_recipe(ROOT, "gemma4-26b-a4b-nvfp4")
    assert recipe.serve[recipe.serve.index("--moe-backend") + 1] == "marlin"
    assert any("MARLIN" in line.pattern for line in recipe.log.must_show)


@pytest.mark.parametrize("changes", [
    {"serve": ["--attention-backend", "FLASH_ATTN"]},
    {"serve": ["--attention-backend=FLASH_ATTN"]},
    {"environment": {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}}])
def test_an_attention_backend_is_refused(changes: dict[str, Any]) -> None:
    assert "never set an attention backend" in " ".join(problems(small(**changes)).values())


@pytest.mark.parametrize("flag", ["--port", "--model", "--host=0.0.0.0", "--chat-template"])
def test_what_sparkyard_adds_itself_is_refused(flag: str) -> None:
    assert "is added by Sparkyard" in problems(small(serve=[flag]))["serve"]


def test_all_errors_come_at_once() -> None:
    raw = small(image="Bad Name", log={"must_show": [{"pattern": "(", "why": "x"}]}, envronment={})
    found = problems(raw)
    assert set(found) == {"image", "log.must_show.0.pattern", "envronment"}
    assert 'perhaps you meant "environment"' in found["envronment"]


def test_a_moving_revision_needs_a_reason() -> None:
    model = {"repository": "google/x", "parameters_billion": 1, "active_billion": 1}
    assert "moves" in problems(small(model=model))["model"]
    moving = parse_recipe(small(model={**model, "unpinned_because": "no hub"}), "x")
    assert moving.model.pinned is False
    pinned = parse_recipe(small(model={**model, "revision": "a" * 40}), "x")
    assert pinned.model.pinned is True


def test_a_model_has_one_origin() -> None:
    assert "either" in problems(small(model={**SMALL["model"], "repository": "a/b"}))["model"]


@pytest.mark.parametrize("path", ["../other", "a/../b", "", ".", "/", "a:b", "a\nb"])
def test_a_path_that_leaves_the_checkout_or_cannot_be_mounted_is_refused(path: str) -> None:
    assert any(where.startswith("model") for where in problems(
        small(model={**SMALL["model"], "path": path})))


def test_an_absolute_path_is_a_folder_of_the_host() -> None:
    recipe = parse_recipe(small(model={**SMALL["model"], "path": "/data/models/gemma"}), "x")
    assert recipe.model.name == "gemma"


@pytest.mark.parametrize("family", ["gemma3", "llama", "other"])
def test_another_family_is_taken_without_what_cannot_be_judged(family: str) -> None:
    flags = ["--attention-backend", "FLASH_ATTN"]  # only Gemma 4 leaves no choice
    assert parse_recipe(small(family=family, serve=flags), "x").family == family
    able = {"reasoning": True}
    assert "cannot be judged" in problems(small(family=family, capabilities=able))[""]


@pytest.mark.parametrize("family", ["gemma4", "qwen3"])
def test_reasoning_is_judged_where_it_can_be_switched_on(family: str) -> None:
    recipe = parse_recipe(small(family=family, capabilities={"reasoning": True}), "x")
    assert recipe.capabilities.reasoning


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 0, -1, 1e300])
def test_parameters_that_are_no_amount_are_refused(number: float) -> None:
    model = {**SMALL["model"], "parameters_billion": number}
    assert "model.parameters_billion" in problems(small(model=model))


def test_no_text_may_hold_a_second_line() -> None:
    """It would be printed as a line of its own between those that people paste."""
    found = problems(small(
        description="x\nrm -rf ~", serve=["--a\nb"], environment={"A": "\x1b[2J"},
        chat_template={"sha256": "0" * 64, "as_of": "x\nrm"},
        requires=["foo @ file:///etc"],
        blocked=[{"versions": "1", "reason": "x", "link": "https://x.example/\nrm"}]))
    assert set(found) == {"description", "serve.0", "environment.A", "chat_template.as_of",
                          "requires.0", "blocked.0.link"}


def test_a_recipe_cannot_be_changed() -> None:
    recipe: Recipe = parse_recipe(small(), "x")
    with pytest.raises(ValueError, match="frozen"):
        recipe.image = "other"  # type: ignore[misc]
