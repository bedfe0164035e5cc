"""``docker run``: complete, quoted, with few rights, and the same words each time."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from exported import CELLS, ROOT, service

from builder.errors import UsageError
from builder.matrix.cells import Cell
from builder.recipes.exports.docker import before, docker, docker_command
from builder.recipes.exports.service import Image, plan_service
from builder.recipes.launch import host_folders, launch_key, server_command
from builder.recipes.load import load_recipe, recipe_names
from builder.recipes.models import Recipe


def words(recipe: Recipe, cell: Cell) -> list[str]:
    planned = plan_service(recipe, cell, Image("registry/tf5:tf5", "a test"), ROOT)
    # which shlex, unlike a shell, keeps
    return shlex.split(docker_command(planned).replace("\\\n", ""))


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
    assert found[found.index("--shm-size") + 1] == "16g"
    assert "HF_HOME=/cache/huggingface" in found
    assert "VLLM_CACHE_ROOT=/cache/runtime/vllm" in found
    mounts = [found[at + 1] for at, word in enumerate(found) if word == "-v"]
    assert any(mount.endswith(":/cache/huggingface") for mount in mounts)
    assert any(mount.endswith(f"/vllm/{recipe.name}-{launch_key(recipe, cell)}:/cache/runtime/vllm")
               for mount in mounts)


def test_a_cpu_server_gets_none_of_it_and_the_embedded_model() -> None:
    found = words(load_recipe(ROOT, "tiny-gemma4"), CELLS["cpu"])
    assert not {"--gpus", "--ipc"} & set(found)
    assert f"{ROOT}/tests/fixtures/tiny-gemma4:/models/tiny-gemma4:ro" in found
    assert "vllm.entrypoints.openai.api_server" in found  # the vllm script fails there


def test_a_stale_template_is_replaced_and_checked() -> None:
    recipe = load_recipe(ROOT, "gemma4-31b-awq4-light")
    steps = before(service("gemma4-31b-awq4-light"))
    assert "ae53464bf3be2580" in steps[2]
    assert "sha256sum --check" in steps[2]
    found = words(recipe, CELLS["tf5"])
    assert found[found.index("--chat-template") + 1] == "/models/chat_template.jinja"
    assert len(before(service("gemma4-26b-a4b-fp8"))) == 1


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
    command = docker(service("gemma4-26b-a4b-nvfp4"))
    found = run_by_a_shell(command, variables, tmp_path)
    mounts = [found[at + 1] for at, word in enumerate(found) if word == "-v"]
    assert [mount.rpartition(":")[0] for mount in mounts] == [str(path) for path, _ in folders]
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
    command = docker_command(plan_service(recipe, cell, Image(f"image{bad}", ""), root))
    found = run_by_a_shell(command, {"HOME": str(tmp_path)}, tmp_path)
    assert f"A={bad}" in found
    assert f"image{bad}" in found
    assert f"{root}/models/{bad}/m:/models/m:ro" in found
    assert found[-3:] == ["--chat", bad, bad]
    assert not trap.exists()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_of_a_models_folder_is_a_name(tmp_path: Path, text: str) -> None:
    """The folder's own name is in the mount's target, and in the model's name."""
    bad = text.format("trap")
    recipe = load_recipe(ROOT, "tiny-gemma4")
    recipe = recipe.model_copy(update={
        "model": recipe.model.model_copy(update={"path": f"models/{bad}"})})
    command = docker_command(plan_service(recipe, CELLS["cpu"], Image("image", ""), tmp_path))
    found = run_by_a_shell(command, {"HOME": str(tmp_path)}, tmp_path)
    assert f"{tmp_path}/models/{bad}:/models/{bad}:ro" in found
    assert not (tmp_path / "trap").exists()


def test_a_server_has_no_rights_and_listens_to_this_machine_only(tmp_path: Path) -> None:
    found = run_by_a_shell(docker(service("tiny-gemma4")), {"HOME": str(tmp_path)}, tmp_path)
    assert found[found.index("-p") + 1] == "127.0.0.1:8000:8000"
    assert found[found.index("--cap-drop") + 1] == "ALL"
    assert found[found.index("--security-opt") + 1] == "no-new-privileges"
    who = subprocess.run(["id", "-u"], capture_output=True, text=True, check=True).stdout.strip()
    assert found[found.index("--user") + 1].startswith(f"{who}:")
    assert "HOME=/tmp" in found
    assert "--env-file" not in found


def test_an_address_and_a_key_are_handed_on_the_key_by_its_file() -> None:
    text = docker(service("tiny-gemma4", host="::1", key_file="my key"))
    assert "-p '[::1]:8000:8000'" in text
    assert "--env-file 'my key'" in text
    assert "--api-key" not in text


def test_several_machines_are_refused() -> None:
    with pytest.raises(UsageError, match="one machine"):
        docker(service("tiny-gemma4", nodes=2))
