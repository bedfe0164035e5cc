"""The memory estimate: flags and defaults, weights, share and the peak while loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builder.recipes.memory import (
    CPU,
    GB10,
    GIB,
    Estimate,
    Machine,
    Rules,
    Settings,
    estimate,
    loaded_bytes,
    settings,
)
from builder.recipes.model_facts import ModelFacts, facts_of

ROOT = Path(__file__).parents[3]


def facts(name: str = "google/gemma-4-31B-it", **changed: Any) -> ModelFacts:
    found = facts_of(ROOT, name)
    assert found is not None
    return found.model_copy(update=changed)


def wanted(*serve: str, machine: Machine = GB10, **environment: str) -> Settings:
    return settings(serve, environment, machine)


def made(*serve: str, of: ModelFacts | None = None, drafter: ModelFacts | None = None,
         rules: Rules = Rules()) -> Estimate:  # noqa: B008 - frozen
    return estimate(of or facts(), wanted(*serve), GB10, rules, drafter)


def test_defaults_are_those_of_the_machine() -> None:
    assert (wanted().batch, wanted().sequences, wanted().block) == (8192, 1024, 16)
    small = wanted(machine=Machine("L40S", 44.4))
    assert (small.batch, small.sequences) == (2048, 256)
    assert wanted(machine=Machine("A100 80 GB", 79.2)).batch == 2048
    cpu = wanted(machine=CPU, VLLM_CPU_KVCACHE_SPACE="2")
    assert (cpu.block, cpu.cache_bytes, cpu.overlaps) == (128, 2 * GIB, False)
    assert wanted(machine=CPU).cache_bytes is None
    assert wanted(VLLM_CPU_KVCACHE_SPACE="2").cache_bytes is None


def test_flags_are_read_in_vllm_s_own_spellings() -> None:
    found = wanted("--max-model-len", "32k", "--kv_cache_dtype=fp8_e4m3", "--max-num-seqs", "4",
                   "--language-model-only", "--load-format", "fastsafetensors",
                   "--no-async-scheduling", "--speculative-config", '{"model": "a/b"}')
    assert (found.length, found.cache_bits, found.sequences) == (32_000, 8, 4)
    assert (found.vision, found.loader, found.drafter) == (False, "fastsafetensors", "a/b")
    assert not found.overlaps
    assert wanted("--max-model-len", "9" * 5000).length is None
    for odd in ("\u00b2", "9" * 5000, "-1", "1e9"):
        assert wanted(machine=CPU, VLLM_CPU_KVCACHE_SPACE=odd).cache_bytes is None
    assert wanted("--kv-cache-dtype", "auto").cache_bits is None
    assert wanted("--kv-cache-dtype", "bfloat16").cache_bits == 16


def test_weights_become_half_where_the_server_quantizes_them() -> None:
    whole, half = facts(), loaded_bytes(facts(), wanted("--quantization", "fp8"))
    assert loaded_bytes(whole, wanted()) == whole.weights_bytes
    # Checkpoints in FP8 have 30.98 GiB, says a public table of the hub's sizes.
    assert half / GIB == pytest.approx(30.98, rel=0.01)
    quantized = facts("cyankiwi/gemma-4-31B-it-AWQ-4bit")
    assert loaded_bytes(quantized, wanted("--quantization", "fp8")) == quantized.weights_bytes


def test_without_vision_its_weights_are_left_out() -> None:
    less = facts().weights_bytes - loaded_bytes(facts(), wanted("--language-model-only"))
    assert less / 2e9 == pytest.approx(0.57, rel=0.3)  # billions of parameters, of two bytes


def test_what_is_left_of_the_share_is_the_cache() -> None:
    found = made("--gpu-memory-utilization", "0.5", of=facts("nvidia/Gemma-4-31B-IT-NVFP4"))
    assert found.weights + found.share + found.cache == pytest.approx(121.7 * GIB / 2)
    assert made("--kv-cache-memory-bytes", "1000000").cache == 1_000_000
    nothing = made("--gpu-memory-utilization", "0.3")
    assert (nothing.tokens, nothing.concurrency, nothing.longest) == (0, 0.0, 0)


def test_more_sequences_and_larger_batches_take_more() -> None:
    few = made("--max-num-seqs", "4", "--max-num-batched-tokens", "2048")
    assert few.share < made("--max-num-seqs", "1024").share
    assert few.share < made("--max-num-seqs", "4", "--max-num-batched-tokens", "65536").share


def test_two_machines_hold_half_of_the_weights_and_of_each_page() -> None:
    one, two = made(), made("--tensor-parallel-size", "2")
    assert two.weights == one.weights / 2
    assert two.pool.block_bytes == one.pool.block_bytes // 2


def test_a_drafter_has_weights_and_unless_it_shares_a_cache() -> None:
    plain = made()
    drafted = made(drafter=facts("RedHatAI/gemma-4-31B-it-speculator.eagle3"))
    assert drafted.weights > plain.weights
    assert len(drafted.pool.groups) == 61
    shared = made(drafter=facts("google/gemma-4-26B-A4B-it-assistant"))
    assert shared.pool == plain.pool


def test_batches_that_overlap_keep_the_windows_of_both() -> None:
    once = made(rules=Rules(overlaps=False))
    assert made().pool.in_flight == 2 * once.pool.in_flight
    assert made("--no-async-scheduling").pool == once.pool


def test_the_peak_is_the_checkpoint_before_it_is_quantized_and_what_a_loader_stages() -> None:
    quantized = made("--quantization", "fp8")
    assert quantized.peak == facts().weights_bytes > quantized.weights
    staged = made("--load-format", "fastsafetensors", of=facts(largest_file_bytes=30 * GIB))
    assert staged.peak == staged.weights + 30 * GIB
    assert made("--load-format", "instanttensor").peak > made().peak == made().weights
