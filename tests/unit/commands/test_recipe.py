"""``sparkyard recipe``: the command, the known trouble, and where every figure comes from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder import cli

MATRIX = str(Path(__file__).parents[3] / "matrix.toml")


def test_a_page_shows_command_trouble_log_lines_and_figures(
        capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--matrix", MATRIX, "recipe", "show", "gemma4-26b-a4b-nvfp4"]) == 0
    page = capsys.readouterr().out
    assert "docker run --rm" in page
    assert "/tf5:tf5" in page
    assert "vllm >=0.23.0,<=0.24.0" in page
    assert "Using 'MARLIN' NvFp4 MoE backend" in page
    assert "decode 51.6 tok/s: published, 1x DGX Spark (GB10)" in page
    assert "not pinned: no model hub" in page
    assert page.rstrip().endswith("not verified on GB10")


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--matrix", MATRIX, "recipe", "show", "tiny-gemma4", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cell"] == "cpu"
    assert document["verified_on_gb10"] is False
    assert cli.run(["--matrix", MATRIX, "recipe", "list", "--json"]) == 0
    assert "tiny-gemma4" in [recipe["name"] for recipe in json.loads(capsys.readouterr().out)]


def test_a_cell_that_the_model_cannot_run_on_is_refused(
        capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--matrix", MATRIX, "recipe", "show", "gemma4-26b-a4b-fp8-mtp", "--cell", "tf5"]
    assert cli.run(words) == 2
    assert "needs vllm>=0.21.0, the cell has 0.20.2" in capsys.readouterr().err
    assert cli.run([*words[:-1], "nowhere"]) == 2


def test_the_list_is_one_line_a_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--matrix", MATRIX, "recipe", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["recipe", "image", "model"]
    assert any(line.startswith("tiny-gemma4 ") for line in lines)


def test_a_broken_recipe_is_told_beside_the_good_ones(tmp_path: Path,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("matrix.toml", "locks", "tests", "images"):
        (tmp_path / name).symlink_to(Path(MATRIX).with_name(name))
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "good.toml").symlink_to(
        Path(MATRIX).parent / "recipes" / "tiny-gemma4.toml")
    (tmp_path / "recipes" / "broken.toml").write_text("schema = 1\n")
    (tmp_path / "recipes" / "folder.toml").mkdir()
    words = ["--matrix", str(tmp_path / "matrix.toml"), "recipe", "list"]
    assert cli.run(words) == 2
    shown = capsys.readouterr()
    assert "good " in shown.out
    assert "recipes/broken.toml" in shown.err
    assert cli.run([*words, "--json"]) == 2
    assert [recipe["name"] for recipe in json.loads(capsys.readouterr().out)] == ["good"]


def test_where_the_model_lies_is_said_as_it_is(tmp_path: Path,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "matrix.toml").symlink_to(MATRIX)
    (tmp_path / "locks").symlink_to(Path(MATRIX).with_name("locks"))
    (tmp_path / "recipes").mkdir()
    (tmp_path / "a model").mkdir()
    text = (Path(MATRIX).parent / "recipes" / "tiny-gemma4.toml").read_text()
    for path, words in (("a model", "in this checkout"), (f"{tmp_path}/a model", "on this host")):
        (tmp_path / "recipes" / "one.toml").write_text(
            text.replace("tests/fixtures/tiny-gemma4", path))
        assert cli.run(["--matrix", str(tmp_path / "matrix.toml"), "recipe", "show", "one"]) == 0
        assert f"model a model ({path}, {words})" in capsys.readouterr().out


def test_the_schema_needs_no_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["recipe", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Sparkyard recipe"
