"""``sparkyard site``: the page of a checkout, from the cache or from a folder of records."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from site_samples import kept, sample

from builder import cli
from builder.errors import NetworkError
from builder.matrix.cells import Cell
from builder.promotion.log import State
from builder.record.models import records_folder

ROOT = Path(__file__).parents[3]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(ROOT)
    return tmp_path / "cache"


def made(tmp_path: Path, *words: str) -> str:
    assert cli.run(["site", "--output", str(tmp_path / "page"), *words]) == 0
    return (tmp_path / "page" / "index.html").read_text(encoding="utf-8")


def test_an_empty_cache_still_gives_a_page_of_the_checkout(cache: Path, tmp_path: Path) -> None:
    text = made(tmp_path)
    assert "There are no records yet" in text
    assert 'id="tf5"' in text
    assert "Published figures" in text
    assert (tmp_path / "page" / "badges" / "tf5.svg").is_file()
    assert not cache.exists(), "it only looks"


def test_records_of_the_cache_or_of_a_named_folder(cache: Path, tmp_path: Path) -> None:
    kept(records_folder(cache), [sample(1, "cpu")])
    other = kept(tmp_path / "other", [sample(2, "tf5")])
    assert "2026-10-24" in made(tmp_path)
    named = made(tmp_path, "--records", str(other))
    assert "2026-10-25" in named
    assert "2026-10-24" not in named


def test_what_cannot_be_used_is_refused(cache: Path, tmp_path: Path,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    assert cli.run(["site", "--output", str(tmp_path / "mine")]) == 2
    assert "not a page of Sparkyard" in " ".join(capsys.readouterr().err.split())
    assert cli.run(["site", "--output", str(tmp_path / "page"), "--records",
                    str(tmp_path / "none")]) == 2
    assert not (tmp_path / "page").exists()


def test_the_moving_tags_that_the_registry_has_are_shown(
        cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tag(name: str, digest: str) -> SimpleNamespace:
        return SimpleNamespace(tag=name, state=lambda: State(digest, ()), history=list)

    def tags(cell: Cell, *_: object) -> SimpleNamespace:
        return SimpleNamespace(all=lambda: [tag(cell.id, ""),
                                            tag(f"{cell.id}-unverified", "sha256:" + "7" * 64)])
    monkeypatch.setattr("builder.commands.site.tags_of", tags)
    text = made(tmp_path, "--tags")
    assert "tag tf5-unverified" in text
    assert "tag tf5<" not in text, "this one is not there yet"
    assert "sha256:777777777777" in text


def test_a_registry_that_does_not_answer_costs_only_the_tags(
        cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    def silent(*_: object) -> None:
        raise NetworkError("the registry does not answer")
    monkeypatch.setattr("builder.commands.site.tags_of", silent)
    assert "tag cpu" not in made(tmp_path, "--tags")
    assert "its tags are left out" in capsys.readouterr().err
