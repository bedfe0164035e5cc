"""``recipe show --format`` prints only that; ``recipe import`` prints a draft and what it lacks."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
import tomli
import yaml

from builder import cli
from builder.cache_folder import claim

MATRIX = str(Path(__file__).parents[3] / "matrix.toml")
SHOW = ["--matrix", MATRIX, "recipe", "show", "tiny-gemma4"]


def test_a_format_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*SHOW, "--format", "compose", "--host", "127.0.0.2"]) == 0
    document = yaml.safe_load(capsys.readouterr().out)
    assert document["services"]["vllm"]["ports"] == ["127.0.0.2:8000:8000"]
    assert cli.run([*SHOW, "--format", "docker", "--public"]) == 0
    script = capsys.readouterr().out
    assert "-p 0.0.0.0:8000:8000" in script
    assert "everybody who reaches it" in script
    subprocess.run(["/bin/sh", "-n", "-c", script], check=True)
    assert "docker" in shlex.split(script, comments=True)


@pytest.mark.parametrize("options", [
    ["--format", "docker", "--nodes", "2"], ["--host", "nowhere"],
    ["--api-key-file", "a\nrm -rf ~"], ["--api-key-file", "."], ["--api-key-file", MATRIX]])
def test_what_cannot_be_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*SHOW, *options]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("nodes", ["0", "-1", "x", "1000"])
def test_a_number_of_machines_is_a_number(nodes: str) -> None:
    with pytest.raises(SystemExit):
        cli.run([*SHOW, "--nodes", nodes])


def test_a_draft_is_printed_and_its_losses_twice(tmp_path: Path,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "their.yaml"
    file.write_text("recipe_version: '2'\nmodel: Qwen/Qwen3-8B\nruntime: vllm\n"
                    "container: their/image\nmods: [x]\ncommand: vllm serve {model} --seed 1\n")
    words = ["--matrix", MATRIX, "recipe", "import", str(file)]
    assert cli.run([*words, "--image", "cpu"]) == 0
    shown = capsys.readouterr()
    document = tomli.loads(shown.out)
    assert document["serve"] == ["--seed", "1"]
    assert document["image"] == "cpu"
    assert document["model"]["parameters_billion"] == 8
    assert "# NOT CARRIED OVER: mods" in shown.out
    assert "not carried over: mods" in shown.err
    assert "model.active_billion" in shown.err
    assert cli.run([*words, "--image", "nothing"]) == 2


def test_old_records_are_no_business_of_a_recipe(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(claim(tmp_path / "cache")))
    old = tmp_path / "cache" / "records" / "cpu" / "20250101T000000Z-2.json"
    old.parent.mkdir(parents=True)
    old.write_text('{"record_version": 1}')
    assert cli.run(SHOW) == 0
    assert capsys.readouterr().err == ""


def test_a_key_file_that_is_not_here_is_warned_about(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "key"
    words = [*SHOW, "--format", "docker", "--api-key-file", str(key)]
    assert cli.run(words) == 0
    assert "this machine has no such file" in capsys.readouterr().err
    key.write_text("VLLM_API_KEY=a-long-secret\n")
    assert cli.run(words) == 0
    assert capsys.readouterr().err == ""
    key.write_text("a-long-secret\n")
    assert cli.run(words) == 2
    shown = capsys.readouterr().err
    assert "the file has no line VLLM_API_KEY=" in shown
    assert "a-long-secret" not in shown
