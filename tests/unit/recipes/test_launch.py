"""The launch command: complete, quoted, and the same words for the same recipe."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from builder.engine.container import RunSpec, _options
from builder.matrix.cells import Cell
from builder.recipes.launch import (
    docker_command,
    host_folders,
    launch_key,
    render,
    server_command,
    template_steps,
)
from builder.recipes.models import Recipe, load_recipe, recipe_names
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[3]
CELLS = {cell.id: cell for cell in open_workspace(ROOT / "matrix.toml").cells}


def words(recipe: Recipe, cell: Cell) -> list[str]:
    command = render(docker_command(recipe, cell, "registry/tf5:tf5", ROOT))
    return shlex.split(command.replace("\\\n", ""))  # which shlex, unlike a shell, keeps


@pytest.mark.parametrize("name", recipe_names(ROOT))
def test_a_shell_reads_the_command_as_it_was_meant(name: str) -> None:
    recipe = load_recipe(ROOT, name)
    found = words(recipe, CELLS[recipe.image])
    image = found.index("registry/tf5:tf5")
    assert found[:2] == ["docker", "run"]
    assert tuple(found[image + 1:]) == server_command(recipe, CELLS[recipe.image])
    assert "\n" not in "".join(found)


def test_a_gpu_server_gets_the_gpu_the_hub_and_its_compile_cache() -> None:
    recipe, cell = load_recipe(ROOT, "gemma4-26b-a4b-nvfp4"), CELLS["tf5"]
    found = words(recipe, cell)
    assert found[found.index("--gpus") + 1] == "all"
    assert found[found.index("--ipc") + 1] == "host"
    assert "VLLM_CACHE_ROOT=/var/cache/vllm" in found
    assert (f"$HOME/.cache/sparkyard/vllm/{recipe.name}-{launch_key(recipe, cell)}:/var/cache/vllm"
            in found)
    assert "$HOME/.cache/huggingface:/root/.cache/huggingface" in found


def test_a_cpu_server_gets_none_of_it_and_the_embedded_model() -> None:
    found = words(load_recipe(ROOT, "tiny-gemma4"), CELLS["cpu"])
    assert not {"--gpus", "--ipc"} & set(found)
    assert f"{ROOT}/tests/fixtures/tiny-gemma4:/models/tiny-gemma4:ro" in found
    assert "vllm.entrypoints.openai.api_server" in found  # the vllm script fails there


def test_the_compile_cache_changes_its_name_with_the_flags_only() -> None:
    recipe, cell = load_recipe(ROOT, "gemma4-31b-nvfp4"), CELLS["tf5"]
    same = recipe.model_copy(update={"description": "other words"})
    other = recipe.model_copy(update={"serve": (*recipe.serve, "--enforce-eager")})
    assert launch_key(same, cell) == launch_key(recipe, cell)
    assert launch_key(other, cell) != launch_key(recipe, cell)
    assert launch_key(recipe, CELLS["latest"]) != launch_key(recipe, cell)


def test_a_stale_template_is_replaced_and_checked() -> None:
    recipe = load_recipe(ROOT, "gemma4-31b-awq4-light")
    steps = template_steps(recipe)
    assert "94899c0f917d93f6" in steps[1]
    assert "sha256sum --check" in steps[1]
    found = words(recipe, CELLS["tf5"])
    assert found[found.index("--chat-template") + 1] == "/models/chat_template.jinja"
    assert template_steps(load_recipe(ROOT, "gemma4-26b-a4b-fp8")) == ()


def test_a_smoke_test_mounts_what_the_pasted_command_mounts(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HOME", raising=False)
    recipe = load_recipe(ROOT, "gemma4-26b-a4b-nvfp4")
    folders = host_folders(recipe, CELLS["tf5"], tmp_path)
    assert all(path.is_dir() for path, _ in folders)
    command = render(docker_command(recipe, CELLS["tf5"], "image", ROOT))
    for path, inside in folders:
        assert f"$HOME/{path.relative_to(tmp_path)}:{inside}" in command
    tiny = load_recipe(ROOT, "tiny-gemma4")
    assert host_folders(tiny, CELLS["cpu"], tmp_path) == ()


def test_a_token_is_handed_on_by_name() -> None:
    words = _options(RunSpec("image", handed_on=("HF_TOKEN",), kept=((Path("/a"), "/b"),)))
    assert words[words.index("HF_TOKEN") - 1] == "--env"
    assert "type=bind,src=/a,dst=/b" in words
