"""The division of the KV cache, against what running servers wrote into their logs."""

from __future__ import annotations

import pytest

from builder.recipes.kv_cache import Group, LayerKind, divide

GIB = 1 << 30
TINY = [LayerKind(2, 512), LayerKind(2, 256, 64)]
MOE = [LayerKind(5, 2048), LayerKind(25, 4096, 1024)]  # 26B-A4B with an FP8 cache


def test_the_tiny_model_on_a_cpu_has_what_vllm_0_32_says() -> None:
    pool = divide(TINY, block=128, in_flight=2048)
    assert pool.tokens(GIB, 2048) == 671_088
    assert pool.concurrency(GIB, 2048) == pytest.approx(327.68)


def test_an_older_vllm_spreads_the_blocks_over_the_groups() -> None:
    pool = divide(MOE, block=16, in_flight=8192, counts_blocks=True)
    assert pool.tokens(int(81.8 * GIB), 131_072) == 714_768


def test_a_drafter_s_layer_of_its_own_makes_groups_of_one_layer() -> None:
    pool = divide([LayerKind(10, 2048), LayerKind(50, 4096, 1024), LayerKind(1, 4096)], block=16,
                  in_flight=16_384, counts_blocks=True)
    assert len(pool.groups) == 61
    memory = 244_000 // 16 * 61 * pool.block_bytes
    assert pool.tokens(memory, 262_144) == 244_000
    assert pool.concurrency(memory, 262_144) == pytest.approx(6.11, abs=0.03)


def test_a_smaller_page_holds_more_tokens_and_one_that_does_not_divide_is_padded() -> None:
    assert divide(MOE, block=16, in_flight=1).groups[0] == Group(32)
    odd = divide([LayerKind(5, 3000), LayerKind(25, 4096, 1024)], block=16, in_flight=1)
    assert odd.groups[0] == Group(16)
    assert odd.block_bytes == 5 * 4096 * 16


def test_layers_of_one_window_share_one_group_with_pages_of_their_own() -> None:
    pool = divide([LayerKind(3, 100), LayerKind(2, 40)], block=10, in_flight=1)
    assert (pool.groups, pool.block_bytes, pool.token_bytes) == ((Group(10),), 3800, 380)


def test_nearly_equal_numbers_of_layers_are_padded_to_the_larger() -> None:
    pool = divide([LayerKind(13, 64), LayerKind(12, 64, 128)], block=16, in_flight=1)
    assert len(pool.groups) == 2
    assert pool.block_bytes == 13 * 64 * 16


def test_a_window_holds_no_more_than_it_sees_and_what_is_in_flight() -> None:
    group = Group(16, 1024)
    assert group.blocks(100, 8192) == 8
    assert group.blocks(100_000, 8192) == group.blocks(1_000_000, 8192) == 577


def test_the_longest_request_is_the_last_that_fits_beside_the_spare_block() -> None:
    pool = divide(TINY, block=128, in_flight=2048)
    memory = (pool.request(3000) + 1) * pool.block_bytes
    longest = pool.longest(memory, 8192)
    assert longest >= 3000
    assert pool.request(longest) < memory // pool.block_bytes <= pool.request(longest + 1)
    assert pool.longest(pool.block_bytes, 8192) == 0
    assert pool.longest(GIB, 8192) == 8192
