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


def test_what_is_no_repository_is_refused(root: Path) -> None:
    assert facts(root, "a") == 2
