"""Whether the hub's cache has a whole model: only a pinned one whose every file is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from exported import ROOT

from builder.recipes.hub import hub_folder, is_complete
from builder.recipes.load import load_recipe
from builder.recipes.models import Recipe

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    folder = tmp_path / "hub/models--a--b/snapshots" / COMMIT
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def recipe(serve: tuple[str, ...] = (), revision: str = COMMIT) -> Recipe:
    base = load_recipe(ROOT, "gemma4-31b-fp8")
    model = base.model.model_copy(update={"repository": "a/b", "revision": revision})
    return base.model_copy(update={"model": model, "serve": serve})


def test_every_file_of_the_index_has_to_be_there(snapshot: Path) -> None:
    assert not is_complete(recipe())
    index = {"weight_map": {"x": "one.safetensors", "y": "two.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    (snapshot / "one.safetensors").write_bytes(b"")
    assert not is_complete(recipe())
    (snapshot / "two.safetensors").write_bytes(b"")
    assert is_complete(recipe())


def test_a_branch_or_a_second_model_is_not_complete(snapshot: Path) -> None:
    (snapshot / "model.safetensors").write_bytes(b"")
    assert is_complete(recipe())
    assert not is_complete(recipe(revision="main"))
    assert not is_complete(recipe(("--speculative-config", '{"model":"c/d"}')))
    assert not is_complete(recipe(("--trust-remote-code",)))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 3}'])
def test_a_damaged_index_is_not_complete(snapshot: Path, text: str) -> None:
    (snapshot / "model.safetensors.index.json").write_text(text)
    assert not is_complete(recipe())


def test_a_folder_is_complete_and_the_hub_is_where_its_client_puts_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_complete(load_recipe(ROOT, "tiny-gemma4"))
    monkeypatch.delenv("HF_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert hub_folder() == tmp_path / ".cache/huggingface"
