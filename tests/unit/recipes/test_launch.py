"""The launch command: complete, quoted, and the same words for the same recipe."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from builder.engine.container import RunSpec, create_options
from builder.matrix.cells import Cell
from builder.recipes.launch import (
    docker_command,
    host_folders,
    launch_key,
    render,
    server_command,
    template_steps,
)
from builder.recipes.load import load_recipe, recipe_names
from builder.recipes.models import Recipe
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
    mounts = [found[at + 1] for at, word in enumerate(found) if word == "-v"]
    assert any(mount.endswith(":/root/.cache/huggingface") for mount in mounts)
    assert any(mount.endswith(f"/vllm/{recipe.name}-{launch_key(recipe, cell)}:/var/cache/vllm")
               for mount in mounts)


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


def run_by_a_shell(text: str, environment: dict[str, str], folder: Path) -> list[str]:
    """Return the words that ``docker`` is given when a real shell runs the text."""
    (folder / "bin").mkdir(exist_ok=True)
    docker = folder / "bin" / "docker"
    docker.write_text('#!/bin/sh\nprintf "%s\\0" "$@" >"$WORDS"\n')
    docker.chmod(0o755)
    subprocess.run(["/bin/sh", "-c", text], check=True, cwd=folder, env={
        **environment, "PATH": f"{folder}/bin:/usr/bin:/bin", "WORDS": f"{folder}/words"})
    return (folder / "words").read_text().split("\0")[:-1]


@pytest.mark.parametrize("variables", [
    {}, {"HF_HOME": "/data/hub of mine"}, {"SPARKYARD_CACHE": "/data/our cache"},
    {"XDG_CACHE_HOME": "/data/xdg"}])
def test_a_smoke_test_mounts_what_the_pasted_command_mounts(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name in ("HF_HOME", "SPARKYARD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    variables = {name: f"{tmp_path}{path}" for name, path in variables.items()}
    variables["HOME"] = str(tmp_path / "home")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    recipe = load_recipe(ROOT, "gemma4-26b-a4b-nvfp4")
    folders = host_folders(recipe, CELLS["tf5"])
    assert len(folders) == 2
    assert all(path.is_dir() for path, _ in folders)
    command = render(docker_command(recipe, CELLS["tf5"], "image", ROOT))
    found = run_by_a_shell(command, variables, tmp_path)
    mounts = [found[at + 1] for at, word in enumerate(found) if word == "-v"]
    assert mounts == [f"{path}:{inside}" for path, inside in folders]
    assert host_folders(load_recipe(ROOT, "tiny-gemma4"), CELLS["cpu"]) == ()


HOSTILE = ("$(touch {0})", "`touch {0}`", "'; touch {0}; '", '"; touch {0}; "', "a & touch {0} &",
           "$HOME", "*", "~", "| touch {0}", "> {0}", "\\", "!!")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_values_reach_docker_as_they_are_and_run_nothing(tmp_path: Path, text: str) -> None:
    trap = tmp_path / "trap"
    bad = text.format(trap)
    recipe, cell = load_recipe(ROOT, "tiny-gemma4"), CELLS["cpu"]
    model = recipe.model.model_copy(update={"path": f"models/{bad}/m"})
    recipe = recipe.model_copy(update={
        "model": model, "serve": ("--chat", bad, bad), "environment": {"A": bad}})
    root = tmp_path / bad.replace("/", "_")
    command = render(docker_command(recipe, cell, f"image{bad}", root))
    found = run_by_a_shell(command, {"HOME": str(tmp_path)}, tmp_path)
    assert f"A={bad}" in found
    assert f"image{bad}" in found
    assert f"{root}/models/{bad}/m:/models/m:ro" in found
    assert found[-3:] == ["--chat", bad, bad]
    assert not trap.exists()


def test_a_hostile_template_address_runs_nothing(tmp_path: Path) -> None:
    recipe = load_recipe(ROOT, "gemma4-31b-awq4-light")
    assert recipe.chat_template
    for text in HOSTILE:
        url = "https://127.0.0.1:9/" + text.format(tmp_path / "trap")
        template = recipe.chat_template.model_copy(update={"url": url})
        steps = template_steps(recipe.model_copy(update={"chat_template": template}))
        assert shlex.split(steps[0]) == ["curl", "-fsSLo", "chat_template.jinja", url]
        subprocess.run(["/bin/sh", "-c", "curl() { :; }; " + steps[0]], check=True, cwd=tmp_path)
    assert not (tmp_path / "trap").exists()


def test_a_token_is_handed_on_by_name() -> None:
    words = create_options(RunSpec("image", forwarded_env=("HF_TOKEN",),
                                   writable_mounts=((Path("/a"), "/b"),)))
    assert words[words.index("HF_TOKEN") - 1] == "--env"
    assert "type=bind,src=/a,dst=/b" in words
