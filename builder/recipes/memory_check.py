"""A recipe's memory judged before anything starts: what it asks for must fit the machine.

The estimate may be wrong by 10 %: what misses by more is an error, what is nearer a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from builder.errors import UsageError
from builder.locking.lock import Lock
from builder.matrix.cells import Cell
from builder.recipes.check import Finding, Vllms, vllm_wheel
from builder.recipes.compatibility import installed
from builder.recipes.log import LogFigure
from builder.recipes.memory import (
    CPU,
    GB10,
    GIB,
    Estimate,
    Machine,
    Rules,
    estimate,
    rules_of,
    settings,
)
from builder.recipes.model_facts import FOLDER, ModelFacts, facts_of, facts_path, folder_facts
from builder.recipes.models import Recipe
from builder.recipes.rules import Severity
from builder.recipes.wheel_sources import WheelSources

CHECK = "memory"
ERROR = 0.1  # of the estimate, against every published figure
SPARE = 1.05  # a full request and 5 %: with less, a server boots only sometimes
SYSTEM_GIB = 8.0  # what the system and a desktop of a unified memory need while a model loads
UTILS, SPECS = "vllm/v1/core/kv_cache_utils.py", "vllm/v1/kv_cache_interface.py"
PARTS: Mapping[str, Callable[[Estimate], float]] = {
    "Model loading took": lambda found: found.weights / GIB,
    "KV cache size": lambda found: found.tokens,
    "Maximum concurrency": lambda found: found.concurrency}


def rules_in(sources: WheelSources | None, version: str) -> Rules:
    """Read from a vLLM's sources how it counts; where they are not there, its version says it."""
    texts = sources.texts if sources else {}
    if UTILS not in texts or SPECS not in texts:
        return rules_of(version)
    return Rules(counts_blocks="// len(kv_cache_config.kv_cache_groups)" in texts[UTILS],
                 overlaps="max_in_flight_tokens" in texts[SPECS])


def machine_of(cell: Cell) -> Machine | None:
    """Return the machine that a cell is for; None for a GPU whose memory is not known."""
    return CPU if not cell.is_cuda else GB10 if cell.gpu == "sm_121" else None


def check_memory(root: Path, recipe: Recipe, cell: Cell, lock: Lock | None, vllms: Vllms
                 ) -> tuple[Estimate | None, list[Finding]]:
    """Estimate a recipe's memory and judge it; no estimate where something is not known.

    Raises ConfigError for facts that do not read.
    """
    machine = machine_of(cell)
    if machine is None:
        return None, [_unknown(f"the memory of a GPU of {cell.gpu} is not known here")]
    wanted = settings(recipe.serve, recipe.environment, machine)
    if not machine.is_cuda and wanted.cache_bytes is None:
        return None, [_unknown("a CPU server takes a share of the host's memory",
                               "set VLLM_CPU_KVCACHE_SPACE in [environment]")]
    try:
        facts = _facts(root, recipe)
    except UsageError as error:
        return None, [_unknown(error.what)]
    if facts is None:
        place = facts_path(root, recipe.model.name).name
        return None, [_unknown(f"nothing is known of the size of {recipe.model.name}",
                               f"write {FOLDER}/{place}, as docs/recipes.md says")]
    drafter = facts_of(root, wanted.drafter) if wanted.drafter else None
    sources = vllms.sources(vllm_wheel(lock) if lock else None)
    rules = rules_in(sources, installed(cell, lock).get("vllm", ""))
    found = estimate(facts, wanted, machine, rules, drafter)
    findings = [*_fits(found, machine), *_loads(found, machine), *_figures(found, recipe, cell)]
    if wanted.drafter and drafter is None:
        findings.append(_unknown(f"nothing is known of the size of the drafter {wanted.drafter}"))
    return found, findings


def summary(found: Estimate) -> str:
    """Return the estimate in one line."""
    share = f", vLLM's own share {found.share / GIB:.2g}" if found.share else ""
    return (f"weights {found.weights / GIB:.3g} GiB{share}, KV cache "
            f"{max(found.cache, 0) / GIB:.3g} GiB ({found.pool.token_bytes / 1024:.3g} KiB for "
            f"each token more): {found.tokens:,} tokens, {found.concurrency:.3g} requests of "
            f"{found.length:,}; the longest that fits has {found.longest:,}")


def _facts(root: Path, recipe: Recipe) -> ModelFacts | None:
    if recipe.model.path:
        return folder_facts(root / recipe.model.path, "https://localhost")
    return facts_of(root, recipe.model.repository or "")


def _unknown(what: str, next_step: str = "") -> Finding:
    return Finding(check=CHECK, severity=Severity.WARNING, next_step=next_step,
                   what=f"{what}: the memory was not estimated")


def _fits(found: Estimate, machine: Machine) -> Iterator[Finding]:
    if found.cache <= 0:
        yield Finding(check=CHECK, severity=Severity.ERROR, what=(
            f"weights of {found.weights / GIB:.1f} GiB and vLLM's own {found.share / GIB:.1f} "
            f"leave nothing for the KV cache on a {machine.name}"),
            next_step="raise --gpu-memory-utilization, or serve a smaller checkpoint")
        return
    longest = found.longest
    if longest >= found.length and found.concurrency >= SPARE:
        return
    certain = longest * (1 + ERROR) < found.length
    keep = max(found.pool.longest(int(found.cache / SPARE), found.limit) // 1024 * 1024, 1)
    yield Finding(
        check=CHECK, severity=Severity.ERROR if certain else Severity.WARNING,
        what=f"the KV cache holds one request of about {longest:,} tokens, and {found.length:,} "
             "are asked for" + ("" if certain else ": so near, a server boots only sometimes"),
        next_step=f"set --max-model-len to {keep}, or lower --max-num-seqs or "
                  "--max-num-batched-tokens")


def _loads(found: Estimate, machine: Machine) -> Iterator[Finding]:
    room = machine.gib - SYSTEM_GIB
    if machine.unified and found.peak / GIB > room:
        yield Finding(check=CHECK, severity=Severity.ERROR, what=(
            f"loading holds about {found.peak / GIB:.0f} GiB at once, and a {machine.name} has "
            f"{room:.0f} beside the system"),
            next_step="remove --load-format, or serve a checkpoint that is quantized already")


def _figures(found: Estimate, recipe: Recipe, cell: Cell) -> Iterator[Finding]:
    """Compare the recipe's own bounds of the log with the estimate."""
    for figure in recipe.log.figure:
        part = next((part for words, part in PARTS.items() if words in figure.pattern), None)
        if part is None or not figure.applies(is_cuda=cell.is_cuda):
            continue
        value = part(found)
        if not _meets(figure, value):
            yield Finding(check=CHECK, severity=Severity.WARNING, what=(
                f"the log's figure {figure.name!r} must be {figure.allowed} {figure.unit}, and the "
                f"estimate is {value:,.4g}"), next_step="correct the bound, or the flags")


def _meets(figure: LogFigure, value: float) -> bool:
    """Say whether a value within the estimate's error keeps the bounds."""
    low, high = figure.bounds
    return value * (1 + ERROR) >= low and value * (1 - ERROR) <= high
