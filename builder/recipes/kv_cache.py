"""How vLLM divides the memory of its KV cache: pages, groups of layers, blocks a request.

Follows ``vllm/v1/core/kv_cache_utils.py`` and ``kv_cache_interface.py`` as vLLM 0.19.0, 0.20.2 and
0.32.0 have them. A page holds the keys and values of one block of tokens in one layer. All layers
share blocks of one size: a kind of layer with a smaller page gets more tokens a block. Layers of
one kind are split into groups of equal size, and each group takes blocks of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FEW_MORE = 1.5  # with fewer layers more than this, vLLM pads the smaller kind instead


@dataclass(frozen=True)
class LayerKind:
    """Layers that keep the same number of bytes a token; ``window`` is None for full attention."""

    layers: int
    token_bytes: int
    window: int | None = None


@dataclass(frozen=True)
class Group:
    """Layers with one table of blocks: tokens a block, and the window of sliding attention."""

    block: int
    window: int | None = None

    def blocks(self, length: int, in_flight: int) -> int:
        """Return the blocks that a request of ``length`` tokens holds at most.

        A window keeps its own tokens and those of the batches in flight; one block more, since it
        may begin within a block.
        """
        if self.window is None:
            return _ceil(length, self.block)
        return _ceil(min(self.window - 1 + in_flight, length), self.block) + 1


@dataclass(frozen=True)
class Pool:
    """The divided memory: groups of layers, and the bytes that one block has in all its layers.

    ``in_flight`` are the tokens of the batches that run at once. ``counts_blocks`` is how vLLM
    before 0.20.2 stated the size: all blocks spread over the groups, whatever a request takes.
    """

    groups: tuple[Group, ...]
    block_bytes: int
    in_flight: int
    counts_blocks: bool = False

    def request(self, length: int) -> int:
        """Return the blocks of one request of ``length`` tokens."""
        return sum(group.blocks(length, self.in_flight) for group in self.groups)

    def concurrency(self, memory: int, length: int) -> float:
        """Return how many requests of ``length`` tokens fit, as vLLM states it."""
        return (memory // self.block_bytes) / self.request(length)

    def tokens(self, memory: int, length: int) -> int:
        """Return the size in tokens, as vLLM states it for a longest request of ``length``."""
        if self.counts_blocks:
            blocks = memory // self.block_bytes
            return blocks // len(self.groups) * min(group.block for group in self.groups)
        return int(self.concurrency(memory, length) * length)

    def longest(self, memory: int, limit: int) -> int:
        """Return the longest request that fits, at most ``limit``; 0 where none does.

        One block is never given to a request.
        """
        blocks, low, high = memory // self.block_bytes - 1, 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.request(middle) <= blocks else (low, middle - 1)
        return low

    @property
    def token_bytes(self) -> float:
        """Return the bytes that one more token of a long request takes."""
        return sum(self.block_bytes / group.block for group in self.groups if group.window is None)


def divide(kinds: Sequence[LayerKind], *, block: int, in_flight: int,
           counts_blocks: bool = False) -> Pool:
    """Divide the cache of a model whose layers are of these kinds; ``block`` is vLLM's own size."""
    if len({kind.window for kind in kinds}) == 1:  # one group, each layer with a page of its own
        size = sum(kind.layers * kind.token_bytes * block for kind in kinds)
        return Pool((Group(block, kinds[0].window),), size, in_flight, counts_blocks)
    page = max(kind.token_bytes for kind in kinds) * block
    size = _group_size([kind.layers for kind in kinds])
    groups = [Group(_tokens(kind, page, block), kind.window)
              for kind in kinds for _ in range(_ceil(kind.layers, size))]
    return Pool(tuple(groups), size * page, in_flight, counts_blocks)


def _tokens(kind: LayerKind, page: int, block: int) -> int:
    """Return the tokens that a page holds; one that does not divide the largest is padded to it."""
    own = kind.token_bytes * block
    return block * (page // own) if page % own == 0 else block


def _group_size(layers: Sequence[int]) -> int:
    few, many = min(layers), max(layers)
    return many if many < few * FEW_MORE else few


def _ceil(value: int, unit: int) -> int:
    return -(-value // unit)
