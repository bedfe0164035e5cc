"""Facts of checkpoints: the committed ones read, a folder's are read from the folder."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from builder.errors import ConfigError, UsageError
from builder.recipes.model_facts import (
    FOLDER,
    FULL,
    SLIDING,
    Shape,
    facts_of,
    folder_facts,
    shape_from,
    tensor_bytes,
)

ROOT = Path(__file__).parents[3]
NAMES = sorted(path.stem.replace("--", "/") for path in (ROOT / FOLDER).glob("*.toml"))
BARE = ('repository = "a/b"\nas_of = "2026-01-01"\nweights_bytes = 1\n'
        'source = "https://a.example"\n')
SMALL: dict[str, Any] = {
    "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 32, "max_position_embeddings": 64}


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_facts_read_and_have_a_shape(name: str) -> None:
    facts = facts_of(ROOT, name)
    assert facts is not None
    assert facts.shape is not None
    assert facts.source.startswith("https://")


@pytest.mark.parametrize(("name", "vision_and_norms"), [
    ("google/gemma-4-31B-it", 0.57e9), ("google/gemma-4-26B-A4B-it", 0.6e9)])
def test_the_shape_explains_all_parameters_but_the_vision(name: str, vision_and_norms: float
                                                         ) -> None:
    facts = facts_of(ROOT, name)
    assert facts is not None
    assert facts.shape is not None
    assert facts.parameters is not None
    embeddings = facts.shape.vocab_size * facts.shape.hidden_size
    rest = facts.parameters - facts.shape.linear_parameters() - embeddings
    assert rest == pytest.approx(vision_and_norms, rel=0.3)


def test_a_model_without_facts_is_none_and_another_s_name_is_refused(tmp_path: Path) -> None:
    assert facts_of(tmp_path, "a/b") is None
    (tmp_path / FOLDER).mkdir(parents=True)
    text = (ROOT / FOLDER / "google--gemma-4-31B-it.toml").read_text()
    (tmp_path / FOLDER / "a--b.toml").write_text(text)
    with pytest.raises(ConfigError, match="the file's name says a/b"):
        facts_of(tmp_path, "a/b")


@pytest.mark.parametrize(("change", "words"), [
    (BARE, "name either a shape, or in shape_of"),
    (f'{BARE}shape_of = "c/d"\n', "there are no facts of c/d"),
    ("weights = 1\n", "unknown key"),
])
def test_facts_that_do_not_fit_together_are_named(tmp_path: Path, change: str, words: str) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "a--b.toml").write_text(change)
    with pytest.raises(ConfigError, match=words):
        facts_of(tmp_path, "a/b")


def test_layers_repeat_their_pattern_and_shared_ones_keep_no_cache() -> None:
    shape = Shape(**SMALL, sliding_window=8, layer_types=(SLIDING, SLIDING, FULL),
                  num_kv_shared_layers=3, num_global_key_value_heads=1, global_head_dim=8)
    assert (shape.layers(FULL), shape.layers(SLIDING)) == (2, 4)
    assert (shape.layers(FULL, with_shared=False), shape.layers(SLIDING, with_shared=False)) == (
        1, 2)
    assert (shape.heads(FULL), shape.heads(SLIDING)) == ((1, 8), (2, 4))


@pytest.mark.parametrize(("changed", "words"), [
    ({"layer_types": ("linear_attention",)}, "linear_attention are not understood"),
    ({"layer_types": (SLIDING,)}, "need a sliding_window"),
])
def test_layers_that_are_not_understood_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Shape(**{**SMALL, **changed})


def test_a_configuration_may_hold_its_text_part_and_leave_out_what_follows() -> None:
    text = {key: value for key, value in SMALL.items() if key not in (
        "head_dim", "num_key_value_heads")}
    shape = shape_from({"text_config": {**text, "layer_types": None}})
    assert (shape.head_dim, shape.num_key_value_heads, shape.layer_types) == (2, 4, (FULL,))


def test_the_tiny_checkpoint_is_read_from_its_folder() -> None:
    folder = ROOT / "tests" / "fixtures" / "tiny-gemma4"
    facts = folder_facts(folder, "https://a.example")
    assert facts.shape is not None
    assert facts.shape.heads(FULL) == (2, 64)
    size = (folder / "model.safetensors").stat().st_size
    assert 0 < size - facts.weights_bytes < 20_000  # the header


@pytest.mark.parametrize(("config", "header"), [
    ({"num_hidden_layers": 10**10}, {}), ({"layer_types": [FULL] * 9999}, {}),
    ({"hidden_size": 10**30}, {}), ({"num_attention_heads": 1e-320, "head_dim": None}, {}),
    ({}, {"a": {"data_offsets": [1]}}), ({}, {"a": {"data_offsets": [0, "1"]}}), ({}, [])])
def test_a_checkpoint_that_would_take_all_memory_or_break_the_reader_is_refused(
        tmp_path: Path, config: dict[str, Any], header: Any) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**SMALL, **config}))
    text = json.dumps(header or {"a": {"data_offsets": [0, 4]}}).encode()
    text = b"[]" if header == [] else text
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(UsageError, match="the checkpoint cannot be read"):
        folder_facts(tmp_path, "https://a.example")


@pytest.mark.parametrize("deep", ["config.json", "model.safetensors"])
def test_a_checkpoint_that_is_nested_deeply_or_is_a_pipe_is_refused(tmp_path: Path, deep: str
                                                                    ) -> None:
    text = b"[" * 20_000
    (tmp_path / "config.json").write_bytes(text if deep == "config.json"
                                           else json.dumps(SMALL).encode())
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(UsageError, match="the checkpoint cannot be read"):
        folder_facts(tmp_path, "https://a.example")
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    (tmp_path / "model.safetensors").unlink()
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(UsageError, match="not a regular file"):
        folder_facts(tmp_path, "https://a.example")


@pytest.mark.parametrize("damage", ["config", "weights", "header", "nothing"])
def test_a_damaged_folder_is_named(tmp_path: Path, damage: str) -> None:
    (tmp_path / "config.json").write_text("{" if damage == "config" else json.dumps(SMALL))
    if damage != "nothing":
        data = {"weights": b"short", "header": struct.pack("<Q", 1 << 60)}.get(damage, b"")
        (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(UsageError, match="the checkpoint cannot be read"):
        folder_facts(tmp_path, "https://a.example")


def test_only_the_header_of_the_weights_is_read(tmp_path: Path) -> None:
    header = json.dumps({"__metadata__": {}, "a": {"data_offsets": [0, 4]},
                         "b": {"data_offsets": [4, 12]}}).encode()
    (tmp_path / "w").write_bytes(struct.pack("<Q", len(header)) + header)
    assert tensor_bytes(tmp_path / "w") == 12
