"""Recipes of sparkrun and eugr: their keys, placeholders, braces, and what was left out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from exported import CELLS, DIGEST, service

from builder.recipes.exports.launchers import eugr, for_nodes, sparkrun, templated
from builder.recipes.exports.service import Image, plan_service
from builder.recipes.imports.foreign import read_foreign
from builder.recipes.load import load_recipe

# Keys of sparkrun's format 2 and eugr's format 1.
SPARKRUN = {"recipe_version", "description", "model", "model_revision", "runtime", "min_nodes",
            "max_nodes", "container", "defaults", "metadata", "env", "command"}
EUGR = {"recipe_version", "name", "description", "model", "container", "defaults", "env",
        "command", "solo_only", "cluster_only"}


def test_sparkrun_reads_what_it_has_to_know() -> None:
    recipe = yaml.safe_load(sparkrun(service("gemma4-31b-awq4-light")))
    assert set(recipe) <= SPARKRUN
    assert recipe["recipe_version"] == "2"
    assert recipe["container"] == DIGEST
    assert recipe["defaults"]["gpu_memory_utilization"] == 0.7
    assert recipe["defaults"]["host"] == "127.0.0.1"
    assert recipe["command"].startswith("vllm serve {model} \\\n")
    assert "'{\"method\":\"eagle3\"" in recipe["command"]
    assert (recipe["min_nodes"], recipe["max_nodes"]) == (1, 1)


def test_eugr_doubles_the_braces_that_are_no_placeholders() -> None:
    recipe = yaml.safe_load(eugr(service("gemma4-31b-awq4-light")))
    assert set(recipe) <= EUGR
    command = recipe["command"].format(**recipe["defaults"])  # as eugr's launcher does it
    assert "--speculative-config '{\"method\":\"eagle3\"" in command
    assert "--port 8000" in command


@pytest.mark.parametrize("bad", ["$(touch trap)", "`touch trap`", "'; touch trap; '",
                                 "a & touch trap", "$HOME", "> trap"])
def test_hostile_values_run_nothing_in_the_shell_of_a_launcher(tmp_path: Path, bad: str) -> None:
    """The launchers fill in the defaults as text; then a shell reads the command."""
    recipe = load_recipe(Path(__file__).parents[4], "tiny-gemma4")
    recipe = recipe.model_copy(update={
        "model": recipe.model.model_copy(update={"path": f"models/{bad}"}),
        "serve": ("--gpu-memory-utilization", bad)})
    planned = plan_service(recipe, CELLS["cpu"], Image("image", ""), tmp_path)
    for export in (sparkrun, eugr):
        document = yaml.safe_load(export(planned))
        command = document["command"]
        if export is eugr:
            command = command.format(**document["defaults"])
        else:
            for key, value in {**document["defaults"], "model": document["model"]}.items():
                command = command.replace(f" {{{key}}}", f" {value}")
        shell = f"python() {{ printf '%s\\n' \"$@\"; }}\n{command}"
        words = subprocess.run(["bash", "-c", shell], cwd=tmp_path, check=True, text=True,
                               capture_output=True).stdout.splitlines()
        assert words[words.index("--model") + 1] == f"{tmp_path}/models/{bad}"
        assert words[words.index("--served-model-name") + 1] == bad
        assert words[words.index("--gpu-memory-utilization") + 1] == bad
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", ['{"a": "b"}', "$HOME", "`touch trap`", "$(touch trap)", '"',
                                   "back\\slash\\", "4"])
def test_a_variable_is_the_same_behind_eugrs_launcher(tmp_path: Path, value: str) -> None:
    """It writes a script with the value in double quotes, and escapes nothing."""
    (tmp_path / "it.yaml").write_text(eugr(service("tiny-gemma4", environment={"ODD": value})))
    written = yaml.safe_load((tmp_path / "it.yaml").read_text())["env"]["ODD"]
    said = subprocess.run(["bash", "-c", f'export ODD="{written}"\nprintf %s "$ODD"'],
                          cwd=tmp_path, check=True, text=True, capture_output=True).stdout
    assert said == value
    assert [path.name for path in tmp_path.iterdir()] == ["it.yaml"]
    assert read_foreign(tmp_path / "it.yaml").environment["ODD"] == value


def test_eugrs_launcher_is_told_to_leave_ray_out() -> None:
    assert eugr(service("gemma4-31b-fp8")).startswith(
        "# Start it with: ./run-recipe.py FILE --solo\n")
    two = eugr(service("gemma4-31b-fp8", nodes=2))
    assert "./run-recipe.py FILE -n HEAD,WORKER --no-ray\n" in two
    on_ray = ("--distributed-executor-backend", "ray")
    assert "--no-ray" not in eugr(service("gemma4-31b-fp8", nodes=2, serve=on_ray))


def test_a_template_and_a_key_are_said_not_to_be_carried_over() -> None:
    for export in (sparkrun, eugr):
        text = export(service("gemma4-31b-awq4-light", key_file="my.key"))
        assert "NOT CARRIED OVER: the chat template of 2026-07-09" in text
        assert "NOT CARRIED OVER: the file with the API key" in text
        assert "--chat-template" not in yaml.safe_load(text)["command"]
        assert "NOT CARRIED OVER" not in export(service("gemma4-31b-fp8"))


def test_several_machines_split_the_model() -> None:
    recipe = yaml.safe_load(sparkrun(service("gemma4-31b-fp8", nodes=2)))
    assert recipe["defaults"]["tensor_parallel"] == 2
    assert (recipe["min_nodes"], recipe["max_nodes"]) == (2, 2)
    assert yaml.safe_load(eugr(service("gemma4-31b-fp8", nodes=2)))["cluster_only"] is True
    assert for_nodes(["vllm", "--x"], 1) == ("vllm", "--x")
    assert for_nodes(["--tensor-parallel-size", "1", "--x"], 2) == (
        "--x", "--tensor-parallel-size", "2")


def test_ray_is_for_a_recipe_that_asks_for_it_and_has_to_be_in_the_image() -> None:
    plain = sparkrun(service("gemma4-31b-fp8", nodes=2))
    assert yaml.safe_load(plain)["runtime"] == "vllm-distributed"
    assert "Ray" not in plain
    for words in (("--distributed-executor-backend", "ray"),
                  ("--distributed-executor-backend=ray",)):
        asked = sparkrun(service("gemma4-31b-fp8", nodes=2, serve=words))
        assert yaml.safe_load(asked)["runtime"] == "vllm-ray"
        assert "has to be in the image" in asked


def test_home_and_caches_are_left_to_the_launcher() -> None:
    recipe = yaml.safe_load(sparkrun(service("tiny-gemma4")))
    assert not {"HOME", "HF_HOME", "HF_HUB_OFFLINE"} & set(recipe["env"])
    assert recipe["env"]["DO_NOT_TRACK"] == "1"
    assert recipe["model"].endswith("tests/fixtures/tiny-gemma4")


def test_a_value_that_begins_like_no_number_stays_text() -> None:
    defaults, command = templated(("vllm", "serve", "m", "--max-model-len", "007", "--a"),
                                  doubled=False)
    assert templated(("vllm", "serve", "m", "--max-model-len", "9" * 5000), doubled=False)[0] == {
        "max_model_len": "9" * 5000}
    assert defaults == {"max_model_len": "007"}
    assert command == "vllm serve m \\\n  --max-model-len {max_model_len} \\\n  --a\n"
