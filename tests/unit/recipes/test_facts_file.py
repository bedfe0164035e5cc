"""A model's facts from the hub: written as they are read, and what the hub does not say is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hub_server import CONFIG

from builder.errors import NetworkError
from builder.fetch.hub import HubModel
from builder.recipes.facts_file import renewed, write_facts
from builder.recipes.model_facts import FOLDER, facts_of

ROOT = Path(__file__).parents[3]
FOUND = HubModel("a/b", "c" * 40, "2026-11-20", 1_500_000,
                 {"model-1.safetensors": 2_000_100, "model-2.safetensors": 1_000_100}, CONFIG,
                 3_000_000)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    facts = renewed(FOUND, None)
    path = write_facts(tmp_path, facts)
    assert path == tmp_path / FOLDER / "a--b.toml"
    read = facts_of(tmp_path, "a/b")
    assert read is not None
    assert read.shape is not None
    assert (read.weights_bytes, read.largest_file_bytes) == (3_000_000, 2_000_100)
    assert read.shape.layers("full_attention") == 3
    assert 'layer_types = ["sliding_attention", "full_attention"]' in path.read_text()
    assert write_facts(tmp_path, read).read_text() == path.read_text()


def test_bits_that_people_found_out_are_kept_and_the_note_is_not() -> None:
    old = facts_of(ROOT, "nvidia/Gemma-4-31B-IT-NVFP4")
    new = renewed(FOUND, old)
    assert old is not None
    assert (new.bits, new.kv_cache_bits, new.note) == (old.bits, old.kv_cache_bits, "")
    assert new.source == f"https://huggingface.co/a/b/tree/{'c' * 40}"


@pytest.mark.parametrize("hub", ["https://hub.example/hf", "http://10.0.0.1:8080"])
def test_the_source_is_the_hub_that_was_asked(hub: str) -> None:
    assert renewed(replace(FOUND, hub=hub), None).source == f"{hub}/a/b/tree/{'c' * 40}"


def test_without_an_index_the_files_count() -> None:
    assert renewed(replace(FOUND, tensor_bytes=None), None).weights_bytes == 3_000_200


@pytest.mark.parametrize("changed", [
    {"config": {}}, {"tensor_bytes": None, "files": {}}, {"modified": "yesterday"},
    {"config": {"text_config": {**CONFIG["text_config"], "layer_types": ["mamba"]}}},
    {"config": {"text_config": {**CONFIG["text_config"], "num_hidden_layers": 10**10}}},
    {"config": [1]}, {"config": {"text_config": [1]}}, {"tensor_bytes": 10**30}])
def test_what_is_not_understood_is_named_and_changes_nothing(changed: dict[str, Any]) -> None:
    with pytest.raises(NetworkError, match="what the hub has of a/b is not understood"):
        renewed(replace(FOUND, **changed), None)
