"""A benchmark beside its baseline, in words; where it was measured stands above every figure."""

from __future__ import annotations

from collections.abc import Iterator

from builder.record.bench import Bench

NOT_SPARK = "; these are no figures of a DGX Spark"


def heading(cell: str, bench: Bench) -> str:
    """Return what was measured and where; what is not a GB10 is said not to be a Spark."""
    spark = "" if bench.conditions.where == "gb10" else NOT_SPARK
    return (f"bench {cell}: {bench.conditions.model}, vLLM {bench.vllm or 'of unknown version'}, "
            f"measured {bench.conditions.place}{spark}")


def compared(bench: Bench) -> Iterator[str]:
    """Yield what was not measured, the sizes of all groups, and what only one side has."""
    yield from (f"left out: {line}" for line in bench.left_out)
    if bench.comparison is None:
        return
    yield (f"against {bench.comparison.baseline} "
           f"(vLLM {bench.comparison.baseline_vllm or 'of unknown version'}):")
    slow = bench.comparison.regressions
    shown = [finding for finding in bench.comparison.findings if finding.cells > 1]
    for finding in [*shown, *(each for each in slow if each not in shown)] or (
            bench.comparison.findings):
        yield f"  {'SLOWER' if finding.regression else '      '} {finding}"
    for name in bench.comparison.only_in_one:
        yield f"  not compared, only one side has it: {name}"
