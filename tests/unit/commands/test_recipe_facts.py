"""``recipe facts``: the files of the checkout renewed from a hub, one failing alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hub_server import pages, serve_hub

from builder import cli
from builder.errors import NetworkError
from builder.recipes.model_facts import FOLDER, facts_of

ROOT = Path(__file__).parents[3]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("matrix.toml", "locks", "tests", "images"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / FOLDER).mkdir(parents=True)
    return tmp_path


def facts(root: Path, *words: str) -> int:
    return cli.run(["--matrix", str(root / "matrix.toml"), "recipe", "facts", *words])


def test_files_are_made_and_renewed_and_one_that_fails_stays(
        root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = pages()
    with serve_hub(found) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        assert facts(root, "a/b") == 0
        assert "a--b.toml: new, 3.0 MB at cccc" in capsys.readouterr().out
        index = next(path for path in found if "index" in path)
        found[index] = {"metadata": {"total_size": 3_300_000}}
        other = (root / FOLDER / "a--b.toml").read_text().replace('"a/b"', '"c/d"')
        (root / FOLDER / "c--d.toml").write_text(other)
        assert facts(root) == NetworkError.exit_code
    said = capsys.readouterr()
    assert "a--b.toml: 3.3 MB (+10.0%)" in said.out
    assert "the hub says nothing of c/d" in said.err
    assert (root / FOLDER / "c--d.toml").read_text() == other
    read = facts_of(root, "a/b")
    assert read is not None
    assert read.weights_bytes == 3_300_000


def test_a_recipe_that_can_be_pinned_now_is_named_and_a_pinned_one_is_not(
        root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "recipes" / "gemma4-31b-fp8.toml").read_text()
    moving = text.replace('"google/gemma-4-31B-it"', '"a/b"')
    why = next(line for line in text.splitlines() if line.startswith("unpinned_because"))
    (root / "recipes" / "moving.toml").write_text(moving)
    (root / "recipes" / "fixed.toml").write_text(moving.replace(why, f'revision = "{"d" * 40}"'))
    (root / "recipes" / "other.toml").write_text(text)
    with serve_hub(pages()) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        assert facts(root, "a/b") == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "pinned" in line]
    assert len(told) == 1
    assert f'recipes/moving.toml can be pinned now: write revision = "{"c" * 40}"' in told[0]


def test_what_is_no_repository_is_refused(root: Path) -> None:
    assert facts(root, "a") == 2


@pytest.mark.parametrize("name", ["a", "a/b/c", "a b/c", "../x", "a/", "https://hub.example/a/b"])
def test_what_is_no_repository_is_refused_before_any_is_asked(
        name: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert facts(root, "a/b", name) == 2
    shown = capsys.readouterr().err
    assert f'"{name}" is not a repository' in shown
    assert "the hub" not in shown
