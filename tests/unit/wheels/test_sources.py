"""Source archives are fetched and checked like wheels."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled_extension import make_recipe, make_sources
from wheel_recipes import recipe

from builder.errors import NetworkError
from builder.indexes.settings import Sources
from builder.store.content_store import Store
from builder.wheels import sources
from builder.wheels.sources import external_archives, fetch_files, source_archive


def test_archives_of_a_recipe() -> None:
    archive = source_archive(recipe(), "0.20.2")
    assert (archive.name, archive.file) == ("vllm", "vllm-0.20.2.tar.gz")
    assert external_archives(recipe())["cutlass"].name == "flashinfer-python"


def test_an_archive_comes_from_an_index_by_its_hash(tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_sources(tmp_path)
    archive = source_archive(make_recipe(path), "1.0")
    page = tmp_path / "simple" / "spam" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="../../{path.name}#sha256={archive.sha256}">{path.name}</a>')
    monkeypatch.setattr("builder.fetch.wheels.user_sources",
                        lambda: Sources((tmp_path / "simple").as_uri()))
    found = fetch_files("cell", [archive, archive], Store(tmp_path / "store"), {})
    assert found[archive].read_bytes() == path.read_bytes()
    other = archive.model_copy(update={"file": "spam-2.0.tar.gz"})
    with pytest.raises(NetworkError, match="no source has"):
        fetch_files("cell", [other], Store(tmp_path / "store"), {})
    assert archive.index == sources.DEFAULT_INDEX
