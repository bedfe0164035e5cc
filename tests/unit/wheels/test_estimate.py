"""Estimated times: by cores, by memory, and never below the longest job."""

from __future__ import annotations

from wheel_recipes import COST, recipe

from builder.wheels.estimate import Estimate, Machine, costs, estimate, this_machine
from builder.wheels.recipe import Cost

GB = 1_000_000_000
HEAVY = Cost.model_validate(COST)  # 600 CPU seconds, the longest 190, 10 GB a job


def test_cores_memory_and_the_longest_job() -> None:
    assert estimate([HEAVY], Machine(2, 64 * GB)) == Estimate(300.0, 2)
    assert estimate([HEAVY], Machine(20, 128 * GB)) == Estimate(190.0, 12)
    assert estimate([HEAVY], Machine(20, 22 * GB)) == Estimate(300.0, 2)
    assert estimate([HEAVY], Machine(2, 8 * GB)) == Estimate(600.0, 1, fits=False)
    assert estimate([HEAVY, HEAVY], Machine(1, 64 * GB)).seconds == 1200.0


def test_costs_are_those_of_the_targets() -> None:
    assert [part.cpu_seconds for part in costs(recipe(), ("_C", "_C_stable_libtorch"))] == [
        8000.0, 600.0]
    assert costs(recipe(), ()) == ()
    assert costs(recipe(whole=COST), ()) == (HEAVY,)


def test_this_machine_has_cores_and_memory() -> None:
    assert this_machine().cores >= 1
    assert this_machine().memory > GB // 10
