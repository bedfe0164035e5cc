"""Drafts: what is carried over loads, what is not is listed, and no number is invented."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli
from exported import service

from builder.recipes.exports.launchers import eugr, sparkrun
from builder.recipes.imports.draft import Draft, draft, problems, to_toml
from builder.recipes.imports.foreign import Foreign, read_foreign
from builder.recipes.load import parse_recipe

FOREIGN = Foreign(
    name="My Model!", version="2", description="words\nof it", model="org/gemma-4-26B-A4B-it",
    revision="", container="their/image:latest",
    words=("--host", "0.0.0.0", "--max-model-len=10", "-tp", "2", "--api-key", "s3cret",
           "--tool-call-parser", "gemma4", "--reasoning-parser", "gemma4",
           "--attention-backend", "FLASH", "--nnodes", "2", "--chat-template", "x.jinja"),
    environment={"NCCL_IB_HCA": "mlx5", "HF_TOKEN": "hf_1", "lower": "x", "GOOD": 'a"b'},
    metadata={}, nodes=2, other=("mods", "pre_exec"))


def lost(found: Draft, text: str) -> bool:
    return any(text in loss for loss in found.lost)


def test_what_can_be_carried_over_is_a_recipe_of_ours() -> None:
    found = draft(FOREIGN, "tf5")
    text = to_toml(found)
    assert problems(found) == []
    recipe = parse_recipe(tomli.loads(text), found.name)
    assert recipe.name == "my-model"
    assert recipe.serve == ("--max-model-len", "10", "--tool-call-parser", "gemma4",
                            "--reasoning-parser", "gemma4")
    assert (recipe.model.parameters_billion, recipe.model.active_billion) == (26, 4)
    assert dict(recipe.environment) == {"GOOD": 'a"b'}
    assert recipe.capabilities.tools
    assert recipe.capabilities.reasoning


@pytest.mark.parametrize("text", [
    "--api-key", "--attention-backend FLASH", "--nnodes 2", "--chat-template x.jinja",
    "--tensor-parallel-size 2", "env.NCCL_IB_HCA", "env.HF_TOKEN", "env.lower", "mods", "pre_exec",
    "container their/image:latest", "2 machines"])
def test_what_cannot_is_listed_and_stands_in_the_draft(text: str) -> None:
    found = draft(FOREIGN, "tf5")
    assert lost(found, text)
    assert any(line.startswith("# NOT CARRIED OVER: ") and text in line
               for line in to_toml(found).splitlines())


def test_no_secret_is_printed() -> None:
    text = to_toml(draft(FOREIGN, "tf5"))
    assert "s3cret" not in text
    assert "hf_1" not in text


def test_numbers_that_nobody_states_are_left_to_be_filled_in() -> None:
    found = draft(Foreign("x", "2", "", "org/model", "", "", (), {}, {}, 1, ()), "tf5")
    assert "# FILL IN: parameters_billion = " in to_toml(found).splitlines()
    assert [problem.split(":")[0] for problem in problems(found)] == [
        "model.parameters_billion", "model.active_billion"]
    assert found.lost == ()


@pytest.mark.parametrize("params", [float("inf"), 1e300 * 1e300, "9" * 400 + "B", float("nan")])
def test_a_number_without_end_is_no_number(params: object) -> None:
    found = draft(Foreign("x", "2", "", f"o/m-{'9' * 400}B-A{'9' * 400}B", "", "", (), {},
                          {"model_params": params}, 1, ()), "tf5")
    assert found.missing == ("parameters_billion", "active_billion")


def test_a_comment_holds_no_control_character() -> None:
    strange = Foreign("x\0", "2", "", "o/m-8B", "", "a\0b\x7f\u2028c = 1", (), {}, {}, 1, ("\x85",))
    text = to_toml(draft(strange, "tf5"))
    assert tomli.loads(text)["model"]["repository"] == "o/m-8B"
    assert "# NOT CARRIED OVER: container a\\x00b\\x7f c = 1: our image" in text


def test_a_commit_pins_the_draft() -> None:
    commit = "0" * 40
    found = draft(Foreign("x", "2", "", "o/m-8B", commit, "", (), {}, {}, 1, ()), "tf5")
    assert found.document["model"]["revision"] == commit
    assert "unpinned_because" not in found.document["model"]


@pytest.mark.parametrize("export", [sparkrun, eugr])
def test_our_own_exports_come_back(tmp_path: Path, export: object) -> None:
    assert callable(export)
    planned = service("gemma4-31b-fp8")
    (tmp_path / "it.yaml").write_text(export(planned))
    found = draft(read_foreign(tmp_path / "it.yaml"), "tf5")
    back = found.document["serve"]
    assert [float(word) if "." in word else word for word in back] == [
        float(word) if word.replace(".", "").isdigit() and "." in word else word
        for word in planned.recipe.serve]
    assert not lost(found, "--served-model-name")
