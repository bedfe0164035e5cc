"""Each rule fires on a recipe made wrong for it and is silent on its neighbour."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from builder.recipes.load import load_recipe, recipe_names
from builder.recipes.models import Recipe
from builder.recipes.rules import Condition, broken_rules, command_line, load_rules

ROOT = Path(__file__).parents[3]
SHARE = ("--gpu-memory-utilization", "0.7")
EAGLE = '{"method":"eagle3","model":"RedHatAI/gemma-4-31B-it-speculator.eagle3"%s}'
PEAGLE = '{"method":"eagle3","model":"RedHatAI/gemma-4-31B-it-p-eagle","parallel_drafting":true}'


def recipe(*serve: str, vision: bool = False, experts: bool = False, family: str = "gemma4",
           repository: str = "google/gemma-4-31B-it", **environment: str) -> Recipe:
    document: dict[str, Any] = {
        "name": "r", "schema": 1, "description": "d", "family": family, "image": "tf5",
        "model": {"repository": repository, "unpinned_because": "a test",
                  "parameters_billion": 30, "active_billion": 4 if experts else 30},
        "serve": serve, "capabilities": {"vision": vision},
        "environment": {"MAX_JOBS": "4", **environment}}
    if not document["environment"]["MAX_JOBS"]:
        del document["environment"]["MAX_JOBS"]
    return Recipe.model_validate(document)


def names(made: Recipe, *, is_cuda: bool = True, vllm: str = "0.20.2",
          architecture: str = "sm_121") -> list[str]:
    return [rule.name for rule in broken_rules(made, is_cuda=is_cuda, vllm=vllm,
                                               architecture=architecture)]


def with_drafter(**config: str) -> tuple[str, ...]:
    return (*SHARE, "--speculative-config", json.dumps({"model": "google/drafter", **config}))


TWO = (*SHARE, "--tensor-parallel-size", "2")
NVFP4 = "nvidia/Gemma-4-26B-A4B-NVFP4"
MARLIN = ("--moe-backend", "marlin")
OFFLOADING = ("--kv-transfer-config", '{"kv_connector":"OffloadingConnector"}')
OTHER_CONNECTOR = ("--kv-transfer-config", '{"kv_connector":"NixlConnector"}')


CASES = {
    "gemma4-attention-backend": (
        recipe(*SHARE, "--attention-config", '{"backend":"FLASH_ATTN"}'),
        recipe(*SHARE, "--attention-config", '{"use_prefill_decode_attention":true}')),
    "gemma4-vision-batch": (
        recipe(*SHARE, "--max-num-batched-tokens", "2048"),
        recipe(*SHARE, "--max-num-batched-tokens", "2496")),
    "gemma4-fastsafetensors": (
        recipe(*SHARE, "--load-format", "fastsafetensors"),
        recipe(*SHARE, "--load-format", "safetensors")),
    "gemma4-fp8-checkpoint": (
        recipe(*SHARE, repository="protoLabsAI/gemma-4-31B-it-FP8"),
        recipe(*SHARE, repository="RedHatAI/gemma-4-26B-A4B-it-FP8-Dynamic")),
    "modelopt-without-marlin": (
        recipe(*SHARE, "--quantization", "modelopt", experts=True),
        recipe(*SHARE, "--quantization", "modelopt", "--moe-backend", "marlin", experts=True)),
    "nvfp4-experts-left-to-vllm": (
        recipe(*SHARE, experts=True, repository="bg-digitalservices/Gemma-4-26B-A4B-it-NVFP4"),
        recipe(*SHARE, "--moe-backend", "marlin", experts=True, repository=NVFP4)),
    "memory-utilization": (
        recipe("--gpu-memory-utilization", "0.90"), recipe("--gpu-memory-utilization", "0.88")),
    "memory-utilization-default": (recipe(), recipe(*SHARE)),
    "batch-too-large": (
        recipe(*SHARE, "--max-num-batched-tokens", "64k"),
        recipe(*SHARE, "--max-num-batched-tokens", "32768")),
    "parallel-drafting-eagle3": (
        recipe(*SHARE, "--speculative-config", EAGLE % ',"parallel_drafting":true'),
        recipe(*SHARE, "--speculative-config", PEAGLE)),
    "tool-parser-missing": (
        recipe(*SHARE, "--enable-auto-tool-choice"),
        recipe(*SHARE, "--enable-auto-tool-choice", "--tool-call-parser", "gemma4")),
    "gemma4-drafter-without-method": (
        recipe(*with_drafter()), recipe(*with_drafter(method="mtp"))),
    "gemma4-drafter-on-0.25": (
        recipe(*with_drafter(method="mtp")), recipe(*SHARE)),
    "gemma4-fp8-cache-on-two": (
        recipe(*TWO, "--kv-cache-dtype", "fp8"), recipe(*SHARE, "--kv-cache-dtype", "fp8")),
    "gemma4-fp8-cache-on-0.27": (
        recipe(*SHARE, "--kv-cache-dtype", "fp8"), recipe(*SHARE)),
    "gemma4-experts-cut-in-two": (
        recipe(*TWO, *MARLIN, experts=True, repository=NVFP4),
        recipe(*TWO, *MARLIN, "--enable-expert-parallel", experts=True, repository=NVFP4)),
    "gemma4-b12x": (
        recipe(*SHARE, "--moe-backend", "flashinfer_b12x"), recipe(*SHARE, *MARLIN)),
    "b12x-on-two": (
        recipe(*TWO, "--moe-backend", "flashinfer_b12x", family="qwen3"),
        recipe(*SHARE, "--moe-backend", "flashinfer_b12x", family="qwen3")),
    "moe-backend-of-sm100": (
        recipe(*SHARE, "--moe-backend", "flashinfer_trtllm"),
        recipe(*SHARE, "--moe-backend", "flashinfer_cutlass")),
    "kv-cache-nvfp4": (
        recipe(*SHARE, "--kv-cache-dtype", "nvfp4"), recipe(*SHARE, "--kv-cache-dtype", "fp8")),
    "deep-gemm-fp8": (
        recipe(*SHARE, family="qwen3", repository="Qwen/Qwen3.6-27B-FP8"),
        recipe(*SHARE, family="qwen3", repository="Qwen/Qwen3.6-27B-FP8",
               VLLM_USE_DEEP_GEMM="0")),
    "nvfp4-with-offload": (
        recipe(*SHARE, *MARLIN, "--cpu-offload-gb", "10", experts=True, repository=NVFP4),
        recipe(*SHARE, *MARLIN, "--cpu-offload-gb", "0", experts=True, repository=NVFP4)),
    "gpt-oss-on-gb10": (
        recipe(*SHARE, family="other", repository="openai/gpt-oss-120b"),
        recipe(*SHARE, family="other", repository="openai/other")),
    "deepseek-v4-on-gb10": (
        recipe(*SHARE, family="other", repository="deepseek-ai/DeepSeek-V4-Flash"),
        recipe(*SHARE, family="other", repository="deepseek-ai/DeepSeek-V3")),
    "remote-code-on-old-vllm": (
        recipe(*SHARE, "--trust-remote-code"), recipe(*SHARE)),
    "compile-jobs": (recipe(*SHARE, MAX_JOBS=""), recipe(*SHARE)),
    "expandable-segments": (
        recipe(*SHARE, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"),
        recipe(*SHARE, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:False")),
    "kv-offload": (recipe(*SHARE, *OFFLOADING), recipe(*SHARE, *OTHER_CONNECTOR)),
    "ray-on-sparks": (
        recipe(*SHARE, "--distributed-executor-backend", "ray"),
        recipe(*SHARE, "--distributed-executor-backend", "mp")),
    "network-of-one-spark": (
        recipe(*SHARE, NCCL_IB_GID_INDEX="3"), recipe(*SHARE, NCCL_DEBUG="INFO")),
    "dflash-on-ada": (
        recipe(*with_drafter(method="dflash")), recipe(*with_drafter(method="eagle3"))),
}
# Rules of another GPU than the usual one.
ARCHITECTURES = {"dflash-on-ada": "sm_89"}
# Rules of other versions of vLLM than the usual one, and a neighbour of each.
VERSIONS = {"gemma4-drafter-on-0.25": ("0.25.1", "0.24.0"),
            "gemma4-fp8-cache-on-two": ("0.19.1", "0.20.2"),
            "gemma4-fp8-cache-on-0.27": ("0.27.1", "0.28.0"),
            "deep-gemm-fp8": ("0.27.0", "0.28.0"), "remote-code-on-old-vllm": ("0.8.5", "0.9.0"),
            "gemma4-b12x": ("0.27.0", "0.28.0"), "deepseek-v4-on-gb10": ("0.27.0", "0.32.0")}


def test_every_rule_has_a_case() -> None:
    assert [rule.name for rule in load_rules()] == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires_alone_and_its_neighbour_is_silent(name: str) -> None:
    wrong, right = CASES[name]
    faulty, good = VERSIONS.get(name, ("0.20.2", ""))
    there = ARCHITECTURES.get(name, "sm_121")
    assert names(wrong, vllm=faulty, architecture=there) == [name]
    assert names(right, vllm=faulty, architecture=there) == []
    assert there == "sm_121" or names(wrong, vllm=faulty) == []
    assert not good or names(wrong, vllm=good) == []


@pytest.mark.parametrize("made", [
    recipe(*SHARE, "--max-num-batched-tokens", "2048", family="qwen3"),
    recipe(*SHARE, "--max-num-batched-tokens", "2048", "--language-model-only", vision=True),
    recipe(*SHARE, "--max-num-batched-tokens", "2048", "--limit-mm-per-prompt",
           '{"image":1,"video":0}', vision=True),
    recipe(*SHARE, repository=NVFP4),  # dense: no experts
    recipe(*SHARE, "--load-format", "fastsafetensors", family="qwen3"),
    recipe(*SHARE, "--quantization", "modelopt"),  # dense: no experts
    recipe(*SHARE, "--speculative-config", EAGLE % ""),
])
def test_other_neighbours_are_silent(made: Recipe) -> None:
    assert names(made) == []


def test_rules_of_a_gpu_leave_a_processor_alone() -> None:
    assert names(recipe(), is_cuda=False) == []


@pytest.mark.parametrize("name", recipe_names(ROOT))
def test_no_committed_recipe_breaks_a_rule(name: str) -> None:
    made = load_recipe(ROOT, name)
    assert names(made, is_cuda=not made.image.startswith("cpu")) == []


def test_a_condition_has_exactly_one_test() -> None:
    with pytest.raises(ValidationError, match="exactly one"):
        Condition(flag="--x", equals="1", above=2)
    with pytest.raises(ValidationError, match="exactly one"):
        Condition(flag="--x")


def test_a_number_that_is_none_meets_no_bound() -> None:
    assert not Condition(flag="--x", above=1).holds({"--x": "auto"})
    assert not Condition(flag="--x", above=1).holds({"--x": "9" * 5000})
    assert Condition(flag="--x", above=1024).holds({"--x": "2K"})


def test_json_and_dotted_flags_are_one_thing() -> None:
    assert command_line(["--a", '{"b":true,"c":"d"}', "--a.e", "1"]) == {
        "--a": '{"b":true,"c":"d"}', "--a.b": "true", "--a.c": "d", "--a.e": "1"}
    assert command_line(["--a", "{broken"]) == {"--a": "{broken"}
