"""Our division of the KV cache against vLLM's own code, run in the cpu image on real shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builder.build import build
from builder.engine.client import Engine
from builder.recipes.kv_cache import LayerKind, divide
from builder.workspace import open_workspace
from tests.integration.test_build import run_in

pytestmark = pytest.mark.engine
ROOT = Path(__file__).parents[2]
MEMORY, BLOCK, LENGTH, BATCH = 40 << 30, 16, 65_536, 8192
# Layers, key-value heads, their size, window: as the models of the recipes have them.
SHAPES: dict[str, list[tuple[int, int, int, int | None]]] = {
    "26B-A4B": [(5, 2, 512, None), (25, 8, 256, 1024)],
    "31B": [(10, 4, 512, None), (50, 16, 256, 1024)],
    "31B with EAGLE3": [(10, 4, 512, None), (50, 16, 256, 1024), (1, 16, 256, None)],
    "31B with another drafter": [(10, 4, 512, None), (50, 16, 256, 1024), (1, 8, 128, None)],
    "a drafter whose page does not divide": [(10, 4, 512, None), (50, 16, 256, 1024),
                                             (1, 6, 128, None)],
    "full attention only": [(36, 8, 128, None)],
    "two sizes of full attention": [(20, 8, 128, None), (4, 4, 64, None)],
    "nearly equal kinds": [(13, 8, 64, None), (12, 8, 64, 128)],
}
ORACLE = """
import json
from types import SimpleNamespace as Some
import torch
from vllm.v1.core import kv_cache_utils as utils
from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
from vllm.v1.kv_cache_layout import KVCacheLayout

cache = Some(get_resolved_kv_cache_layout=lambda: KVCacheLayout.LBNHC,
             num_gpu_blocks_override=None, prefix_cache_retention_interval=None)
config = Some(
    cache_config=cache, attention_config=Some(hisparse_config=None), speculative_config=None,
    scheduler_config=Some(disable_hybrid_kv_cache_manager=False), max_in_flight_tokens={batch},
    parallel_config=Some(decode_context_parallel_size=1),
    model_config=Some(max_model_len={length}))
found = {{}}
for name, kinds in json.loads('''{shapes}''').items():
    specs = {{}}
    for kind, (layers, heads, size, window) in enumerate(kinds):
        common = dict(block_size={block}, num_kv_heads=heads, head_size=size, dtype=torch.uint8)
        for layer in range(layers):
            specs[f"{{kind}}.{{layer}}"] = (
                SlidingWindowSpec(sliding_window=window, **common) if window
                else FullAttentionSpec(**common))
    groups = utils.get_kv_cache_groups(config, specs)
    planned = utils.get_kv_cache_config_from_groups(config, groups, {memory})
    tokens, requests = utils.get_kv_cache_capacity(config, planned)
    config.model_config.max_model_len = 1 << 20
    spare = {memory} - utils._pool_bytes_per_block(config, groups)
    longest = utils._estimate_max_model_len_from_groups(config, groups, spare)
    config.model_config.max_model_len = {length}
    found[name] = [planned.num_blocks, tokens, requests, longest]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def oracle() -> dict[str, Any]:
    workspace, engine = open_workspace(ROOT / "matrix.toml"), Engine.connect()
    cell = next(cell for cell in workspace.cells if cell.id == "cpu")
    image = build(workspace, cell, engine).plan.name
    code = ORACLE.format(batch=BATCH, length=LENGTH, block=BLOCK, memory=MEMORY,
                         shapes=json.dumps(SHAPES))
    said = run_in(engine, image, code).splitlines()[-1]
    return dict(json.loads(said))


@pytest.mark.parametrize("name", SHAPES)
def test_blocks_tokens_requests_and_the_longest_are_vllm_s(name: str, oracle: dict[str, Any]
                                                           ) -> None:
    kinds = [LayerKind(layers, heads * size * 2, window)
             for layers, heads, size, window in SHAPES[name]]
    pool = divide(kinds, block=BLOCK, in_flight=BATCH)
    blocks, tokens, requests, longest = oracle[name]
    assert MEMORY // pool.block_bytes == blocks
    assert pool.tokens(MEMORY, LENGTH) == tokens
    assert pool.concurrency(MEMORY, LENGTH) == pytest.approx(requests)
    assert pool.longest(MEMORY, 1 << 20) == longest
