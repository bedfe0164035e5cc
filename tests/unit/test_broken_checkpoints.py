"""The broken checkpoints differ from the tiny model in their fault and in nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fixtures.broken_checkpoints import (
    FAULTS,
    TEXT,
    TINY,
    break_checkpoint,
    read_tensors,
    untied,
)

FILES = {path.name for path in TINY.iterdir()}
SCALED = {f"{TEXT}.layers.{layer}.post_{part}_layernorm.weight"
          for layer in range(4) for part in ("attention", "feedforward")}
CHAINED = {f"{TEXT}.embed_tokens.weight", "lm_head.weight", f"{TEXT}.norm.weight", *SCALED}
CHANGED = {"bangs": CHAINED, "loops": CHAINED, "nan": {f"{TEXT}.norm.weight"},
           "blind": {"model.embed_vision.embedding_projection.weight"}}
FILE = {"thoughtless": "chat_template.jinja", "leaky": "tokenizer.json",
        "unscaled": "processor_config.json", "oversized": "processor_config.json"}


def test_the_healthy_one_has_the_same_output_layer_as_a_tensor_of_its_own(tmp_path: Path) -> None:
    found, tiny = read_tensors(untied(tmp_path / "untied")), read_tensors(TINY)
    assert found.pop("lm_head.weight") == tiny[f"{TEXT}.embed_tokens.weight"]
    assert found == tiny
    config = json.loads((tmp_path / "untied" / "config.json").read_text())
    wanted = json.loads((TINY / "config.json").read_text())
    wanted["tie_word_embeddings"] = wanted["text_config"]["tie_word_embeddings"] = False
    assert config == wanted


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_changes_what_it_says(tmp_path: Path, fault: str) -> None:
    good, bad = untied(tmp_path / "good"), break_checkpoint(fault, tmp_path / "bad")
    before, after = read_tensors(good), read_tensors(bad)
    assert {name: shape for name, (shape, _) in before.items()} == {
        name: shape for name, (shape, _) in after.items()}
    assert {name for name in before if before[name] != after[name]} == CHANGED.get(fault, set())
    files = {name for name in FILES if (good / name).read_bytes() != (bad / name).read_bytes()}
    assert files == ({FILE[fault]} if fault in FILE else {"model.safetensors"})
