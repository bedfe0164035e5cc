"""What a recipe's server takes of a machine's memory, estimated before anything starts.

    memory x utilization = weights + vLLM's own share + KV cache

The division of the KV cache is exact (``builder.recipes.kv_cache``). The weights are those of the
checkpoint; quantized while loading, those that the shape says. vLLM's own share is what it measures
in a trial run at the start; constants that were fitted to published starts stand for it here.
``recipe check --memory`` shows each of those starts beside its estimate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builder import specifiers
from builder.recipes.kv_cache import LayerKind, Pool, divide
from builder.recipes.model_facts import FULL, SLIDING, ModelFacts, Shape
from builder.recipes.rules import command_line, number

GIB = 1 << 30
BASE_SHARE = 1.5 * GIB  # context, kernels, CUDA graphs
SAMPLER_BYTES = 20  # a logit while all sequences are sampled: values, sorted copies, indices
LARGE_GIB = 70  # from here on vLLM takes larger batches by default, but on an A100
# What a loader holds besides the weights. A file is staged whole by fastsafetensors
# (eugr/spark-vllm-docker#205); instanttensor took 4.4 GiB more than the default loader
# (MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#204).
STAGES_A_FILE = ("fastsafetensors",)
BUFFER_BYTES = {"instanttensor": 4.4 * GIB}
COUNTED_BLOCKS = "<0.20.2"  # compared in the sources of 0.19.0, 0.20.2 and 0.32.0
WHOLE_GIB = re.compile(r"[0-9]{1,6}")
OVERLAPS = ">=0.21"  # 0.20.2 does not, 0.32.0 does; the first is not known


@dataclass(frozen=True)
class Machine:
    """Where the server runs: GiB that vLLM sees, of one GPU; ``unified`` where all share them."""

    name: str
    gib: float = 0.0
    is_cuda: bool = True
    unified: bool = False

    @property
    def is_large(self) -> bool:
        """Say whether vLLM takes the batches of large GPUs by default."""
        return self.gib >= LARGE_GIB and "A100" not in self.name


GB10 = Machine("GB10", 121.7, unified=True)  # 128 GB, of which so much is visible
CPU = Machine("CPU", is_cuda=False)


@dataclass(frozen=True)
class Rules:
    """How a version of vLLM counts; ``builder.recipes.memory_check`` reads it from its sources.

    ``counts_blocks``: the size in tokens leaves out what a request takes. ``overlaps``: batches
    run two at a time, and a window keeps the tokens of both. ``basis`` is empty where the sources
    were read, else it says what stands for them.
    """

    counts_blocks: bool = False
    overlaps: bool = True
    basis: str = ""


def rules_of(version: str) -> Rules:
    """Return how a version of vLLM counts; an unknown one counts as the newest that is known."""
    if not specifiers.is_exact(version):
        return Rules(basis="as vLLM 0.32.0 counts (the cell's version is not known)")
    return Rules(counts_blocks=specifiers.allows(COUNTED_BLOCKS, version),
                 overlaps=specifiers.allows(OVERLAPS, version),
                 basis=f"as vLLM {version} counts (by its version; its sources were not read)")


@dataclass(frozen=True)
class Settings:
    """The flags that memory depends on, with vLLM's defaults on a machine."""

    length: int | None
    utilization: float
    sequences: int
    batch: int
    tensor_parallel: int
    block: int
    cache_bits: int | None
    cache_bytes: int | None
    overlaps: bool
    vision: bool
    quantization: str
    loader: str
    drafter: str


@dataclass(frozen=True)
class Estimate:
    """The parts in bytes, of one GPU; ``peak`` is the most that loading holds at once."""

    weights: float
    share: float
    cache: int
    peak: float
    length: int
    pool: Pool
    limit: int
    basis: str = ""  # of the rules

    @property
    def tokens(self) -> int:
        """Return the size of the KV cache in tokens, as vLLM states it."""
        return self.pool.tokens(self.cache, self.length) if self.cache > 0 else 0

    @property
    def concurrency(self) -> float:
        """Return how many requests of full length fit, as vLLM states it."""
        return self.pool.concurrency(self.cache, self.length) if self.cache > 0 else 0.0

    @property
    def longest(self) -> int:
        """Return the largest --max-model-len that fits."""
        return self.pool.longest(self.cache, self.limit) if self.cache > 0 else 0


def settings(serve: Sequence[str], environment: Mapping[str, str], machine: Machine) -> Settings:
    """Read the flags of ``serve``, with vLLM's defaults where they are missing."""
    values = command_line(serve)
    space = environment.get("VLLM_CPU_KVCACHE_SPACE", "") if not machine.is_cuda else ""
    given = _whole(values, "--kv-cache-memory-bytes")
    split = _whole(values, "--tensor-parallel-size", "-tp") or 1
    batch, sequences = ((2048 * split, 128 * split) if not machine.is_cuda else
                        (8192, 1024) if machine.is_large else (2048, 256))
    return Settings(
        length=_whole(values, "--max-model-len"),
        utilization=number(values.get("--gpu-memory-utilization", "")) or 0.9,
        sequences=_whole(values, "--max-num-seqs") or sequences,
        batch=_whole(values, "--max-num-batched-tokens") or batch,
        tensor_parallel=split,
        block=_whole(values, "--block-size") or (16 if machine.is_cuda else 128),
        cache_bits=_cache_bits(values.get("--kv-cache-dtype", "auto")),
        cache_bytes=int(space) * GIB if WHOLE_GIB.fullmatch(space) else given,
        overlaps=machine.is_cuda and "--no-async-scheduling" not in values,
        vision="--language-model-only" not in values,
        quantization=values.get("--quantization", values.get("-q", "")),
        loader=values.get("--load-format", "auto"),
        drafter=values.get("--speculative-config.model", ""))


def _whole(values: Mapping[str, str], *flags: str) -> int | None:
    found = next((number(values[flag]) for flag in flags if flag in values), None)
    return int(found) if found and found > 0 else None


def _cache_bits(kind: str) -> int | None:
    """Return the bits of a cached value; None where the checkpoint decides."""
    found = re.search(r"fp8|int8|bfloat16|float16", kind)
    return None if found is None else 8 if found[0] in ("fp8", "int8") else 16


def estimate(facts: ModelFacts, wanted: Settings, machine: Machine, rules: Rules,
             drafter: ModelFacts | None = None) -> Estimate:
    """Estimate a server's memory; ``drafter`` are the facts of the model that drafts for it."""
    shape = _shape(facts)
    pool = divide(_kinds(facts, wanted, drafter), block=wanted.block,
                  in_flight=wanted.batch * (2 if rules.overlaps and wanted.overlaps else 1),
                  counts_blocks=rules.counts_blocks)
    split = wanted.tensor_parallel
    extra = drafter.weights_bytes if drafter else 0
    weights = (loaded_bytes(facts, wanted) + extra) / split
    share = _share(shape, wanted) if machine.is_cuda else 0.0
    cache = (wanted.cache_bytes if wanted.cache_bytes is not None else
             int(machine.gib * GIB * wanted.utilization - weights - share))
    largest = facts.largest_file_bytes or facts.weights_bytes
    staged = largest if wanted.loader in STAGES_A_FILE else BUFFER_BYTES.get(wanted.loader, 0)
    before = facts.weights_bytes if _quantizes(facts, wanted) else 0
    return Estimate(
        weights=weights, share=share, cache=cache, pool=pool,
        peak=max(weights, (before + extra) / split) + staged,
        length=min(wanted.length or shape.max_position_embeddings, shape.max_position_embeddings),
        limit=shape.max_position_embeddings, basis=rules.basis)


def loaded_bytes(facts: ModelFacts, wanted: Settings) -> float:
    """Return the bytes of the weights once they are loaded: quantized, and without the vision."""
    shape = _shape(facts)
    linear = shape.linear_parameters()
    size = float(facts.weights_bytes)
    if _quantizes(facts, wanted):
        size -= linear  # one byte for two
    if not wanted.vision and facts.parameters:
        size -= 2 * max(facts.parameters - linear - shape.vocab_size * shape.hidden_size, 0)
    return size


def _quantizes(facts: ModelFacts, wanted: Settings) -> bool:
    """Say whether the weights become FP8 while they are loaded."""
    return facts.bits == 16 and wanted.quantization.startswith("fp8")


def _shape(facts: ModelFacts) -> Shape:
    if facts.shape is None:
        raise ValueError(f"{facts.repository} has no shape")
    return facts.shape


def _kinds(facts: ModelFacts, wanted: Settings, drafter: ModelFacts | None) -> list[LayerKind]:
    bits = wanted.cache_bits or facts.kv_cache_bits
    kinds = _kinds_of(_shape(facts), bits, wanted.tensor_parallel)
    if drafter and not drafter.shares_cache:
        kinds += _kinds_of(_shape(drafter), bits, wanted.tensor_parallel)
    return kinds


def _kinds_of(shape: Shape, bits: int, split: int) -> list[LayerKind]:
    kinds = []
    for kind in (FULL, SLIDING):
        layers = shape.layers(kind, with_shared=False)
        heads, size = shape.heads(kind)
        token = max(heads // split, 1) * size * 2 * bits // 8
        if layers:
            window = shape.sliding_window if kind == SLIDING else None
            kinds.append(LayerKind(layers, token, window))
    return kinds


def _share(shape: Shape, wanted: Settings) -> float:
    """Return vLLM's own share: the larger of sampling all sequences and running one batch."""
    sampling = wanted.sequences * shape.vocab_size * SAMPLER_BYTES
    width = 4 * shape.intermediate_size / wanted.tensor_parallel + 12 * shape.hidden_size
    return BASE_SHARE + max(sampling, wanted.batch * width)
