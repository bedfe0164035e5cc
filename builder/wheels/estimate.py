"""How long a compile takes on a machine: from what its jobs were seen to need.

The recipe has CPU seconds as they were measured elsewhere; another processor is quicker or slower,
so the result is an estimate and is shown as one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from builder.wheels.recipe import Cost, Recipe

GB = 1e9
RESERVE_GB = 1.0  # for all that is no compile job


@dataclass(frozen=True)
class Machine:
    """What compiles: cores, and bytes of memory."""

    cores: int
    memory: int


@dataclass(frozen=True)
class Estimate:
    """Seconds with so many jobs at once; ``fits`` says whether one job has its memory."""

    seconds: float
    jobs: int
    fits: bool = True


def this_machine() -> Machine:
    """Return this machine's cores and memory."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return Machine(os.cpu_count() or 1, pages * size)


def costs(recipe: Recipe, targets: Sequence[str]) -> tuple[Cost, ...]:
    """Return what the targets take, or the whole package where none is named."""
    if targets:
        return tuple(recipe.targets[name].cost for name in targets)
    return (recipe.whole,) if recipe.whole else ()


def estimate(parts: Sequence[Cost], machine: Machine) -> Estimate:
    """Return the time of all parts together.

    As many jobs as cores, fewer where the largest would not have its memory. It cannot be shorter
    than the longest job.
    """
    most = max((part.memory_gb for part in parts), default=0.0)
    room = machine.memory / GB - RESERVE_GB
    jobs = max(1, min(machine.cores, int(room / most) if most else machine.cores))
    cpu = sum(part.cpu_seconds for part in parts)
    longest = max((part.longest_seconds for part in parts), default=0.0)
    return Estimate(max(longest, cpu / jobs), jobs, room >= most)
