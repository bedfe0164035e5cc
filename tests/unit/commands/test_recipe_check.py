"""``recipe check``: one verdict a recipe, its memory, and the tables behind the estimates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder import cli
from builder.commands.recipe_check import recipe_cell
from builder.recipes.check import Finding, vllm_wheel
from builder.recipes.load import load_recipe, recipe_names
from builder.recipes.models import Pin
from builder.recipes.rules import Severity
from builder.store.content_store import wheel_place
from builder.workspace import open_workspace

MATRIX = str(Path(__file__).parents[3] / "matrix.toml")
CHECK = ("--matrix", MATRIX, "recipe", "check")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path))


def test_the_memory_stands_below_the_verdict(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("builder.commands.recipe_check.check", lambda *_: [])
    assert cli.run([*CHECK, "tiny-gemma4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tiny-gemma4 on cpu: good"
    assert "KV cache 1 GiB" in lines[1]
    assert "671,088 tokens" in lines[1]
    assert cli.run([*CHECK, "tiny-gemma4", "--json"]) == 0
    memory = json.loads(capsys.readouterr().out)[0]["memory"]
    assert (memory["kv_cache_tokens"], memory["longest"]) == (671_088, 8192)


def test_errors_of_the_memory_count_and_come_first(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    warning = Finding(check="flag", severity=Severity.WARNING, what="w")
    error = Finding(check="memory", severity=Severity.ERROR, what="e")
    monkeypatch.setattr("builder.commands.recipe_check.check", lambda *_: [warning])
    monkeypatch.setattr("builder.commands.recipe_check.check_memory", lambda *_: (None, [error]))
    assert cli.run([*CHECK, "tiny-gemma4"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["tiny-gemma4 on cpu: 1 error, 1 warning", "  error (memory): e",
                     "  warning (flag): w"]


def test_the_reported_memory_is_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*CHECK, "--memory", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["reported"] for row in rows} >= {"714,768", "244,000", "15.76"}
    assert cli.run([*CHECK, "--memory"]) == 0
    assert "714,768" in capsys.readouterr().out


def test_what_was_not_checked_is_said_and_ends_with_one(
        capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*CHECK, "tiny-gemma4"]) == 1
    first, _, *last = capsys.readouterr().out.splitlines()
    assert first == "tiny-gemma4 on cpu: not checked whole"
    assert last == [
        ("1 recipe was not checked whole: flags, environment and log patterns are read from the "
         "locked wheel of vLLM"),
        "  the cache lacks the wheel of cpu: run `./nox -s fetch -- cpu`"]
    assert cli.run([*CHECK, "tiny-gemma4", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [finding["check"] for finding in document[0]["findings"]] == ["wheel"]
    assert cli.run([*CHECK, "nothing"]) == 2


def test_what_to_fetch_is_said_once_for_all_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(CHECK) == 1
    page = capsys.readouterr().out
    assert page.count("nox") == 1
    assert page.endswith("of cpu, latest, tf5: run `./nox -s fetch -- cpu latest tf5`\n")


def test_the_memory_does_not_depend_on_the_wheel_and_says_what_it_is_by(
        capsys: pytest.CaptureFixture[str]) -> None:
    """With the wheel in the cache it is the same figure, as docs/recipes.md shows it."""
    cli.run([*CHECK, "gemma4-31b-fp8"])
    line = capsys.readouterr().out.splitlines()[1]
    assert line.startswith("  memory, estimated as vLLM 0.20.2 counts (by its version; its sources")
    shown = (Path(MATRIX).parent / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert f"memory, estimated: {line.partition('): ')[2]}\n" in shown
    cli.run([*CHECK, "gemma4-31b-fp8", "--json"])
    memory = json.loads(capsys.readouterr().out)[0]["memory"]
    assert memory["basis"].startswith("as vLLM 0.20.2 counts")


def test_no_committed_recipe_has_an_error_but_the_wheel_that_is_not_here(
        capsys: pytest.CaptureFixture[str]) -> None:
    cli.run([*CHECK, "--json"])
    document = json.loads(capsys.readouterr().out)
    root = Path(MATRIX).parent
    assert sorted(entry["recipe"] for entry in document) == sorted(recipe_names(root))
    assert {finding["check"] for entry in document for finding in entry["findings"]} == {"wheel"}


def test_the_roofline_is_one_table_and_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*CHECK, "--roofline", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    dense = next(row for row in rows if row["weights"] == "bf16" and row["model"] == "31B")
    assert (dense["bound tok/s"], dense["error"], dense["verdict"]) == ("4.4", "-16%", "explained")


def test_a_pinned_recipe_takes_the_locked_cell_with_its_version() -> None:
    workspace = open_workspace(Path(MATRIX), make_cache=False)
    recipe = load_recipe(workspace.root, "tiny-gemma4")
    pin = Pin(vllm="0.19.0", cell="x", record=f"sha256:{'0' * 64}", where="cpu", on="2026-11-22")
    moved = recipe.model_copy(update={"image": "tf5"})
    assert recipe_cell(workspace, moved, None)[0].id == "tf5"
    for version, cell in (("0.20.2", "tf5"), ("9.9", "tf5")):
        pinned = moved.model_copy(update={"pinned": pin.model_copy(update={"vllm": version})})
        assert recipe_cell(workspace, pinned, None)[0].id == cell


def test_a_recipe_that_cannot_be_judged_does_not_hide_the_others(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    for name in ("matrix.toml", "locks", "tests", "images"):
        (tmp_path / name).symlink_to(Path(MATRIX).with_name(name))
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    good = (Path(MATRIX).parent / "recipes" / "tiny-gemma4.toml").read_text(encoding="utf-8")
    (recipes / "good.toml").write_text(good)
    (recipes / "stray.toml").write_text(good.replace('image = "cpu"', 'image = "gone"'))
    (recipes / "folder.toml").mkdir()
    assert cli.run(["--matrix", str(tmp_path / "matrix.toml"), "recipe", "check"]) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith("good on cpu: ")
    assert "a recipe must be a regular file" in shown.err
    assert 'recipe "stray" names the image "gone"' in shown.err
    assert "where: recipes/stray.toml: image" in shown.err


def test_an_unknown_cell_gets_the_list_of_cells(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*CHECK, "--cell", "cpuu"]) == 2
    shown = capsys.readouterr().err
    assert shown.count("error:") == 1
    assert 'where: --cell\n  next:  perhaps you meant "cpu"; the cells are cpu, ' in shown


def test_it_makes_no_cache_and_removes_nothing_from_one(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "new"))
    assert cli.run([*CHECK, "tiny-gemma4"]) == 1
    assert not (tmp_path / "new").exists()
    workspace = open_workspace(Path(MATRIX))
    cell, lock = recipe_cell(workspace, load_recipe(workspace.root, "tiny-gemma4"), None)
    assert lock
    wheel = vllm_wheel(lock)
    assert wheel
    path = wheel_place(workspace.cache, wheel)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"cut short")
    assert cli.run([*CHECK, "tiny-gemma4"]) == 1
    assert f"the cache lacks the wheel of {cell.id}" in capsys.readouterr().out
    assert path.read_bytes() == b"cut short"
