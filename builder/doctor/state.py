"""The doctor's view of this host for the record of a run: without what names the machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from builder.doctor.facts import HostFacts, facts_of
from builder.doctor.judging import Line, Verdict, judge
from builder.doctor.needs import cache_folders, need_of
from builder.doctor.reading import read_host
from builder.recipes.models import Recipe
from builder.record.host_state import HostCheck, HostState
from builder.workspace import Workspace

# A run's server has a port of its own, and folders are paths: both are the host's own affair.
LEFT_OUT = ("folder", "folder-unusable", "port")
# These may hold a path, an address or a container's name; their verdict says enough.
NAMELESS = ("docker", "docker-group", "docker-snap", "rdma-address", "gpu-holders")


def state_of_this_host(workspace: Workspace, recipe: Recipe) -> HostState:
    """Read and judge this host for a recipe; nothing on it is changed."""
    facts = facts_of(read_host(cache_folders(workspace)))
    return host_state(facts, judge(facts, need_of(workspace, recipe)))


def host_state(facts: HostFacts, lines: Sequence[Line]) -> HostState:
    """Return facts and verdicts as a record keeps them."""
    gpu = facts.gpus[0] if facts.gpus else None
    return HostState(
        memory_available=facts.memory.get("MemAvailable"),
        page_cache=facts.memory.get("Cached"), swap=facts.swap, driver_cuda=facts.driver_cuda,
        clock=gpu.clock if gpu else None, clock_limit=gpu.clock_limit if gpu else None,
        power=gpu.power if gpu else None,
        holders=tuple(Path(process.name).name for process in facts.processes or ()),
        adapters=tuple(f"{adapter.name} {adapter.rate} Gb/s" for adapter in facts.adapters or ()
                       if adapter.state == "Active"),
        checks=tuple(HostCheck(check=line.check, verdict=line.verdict.value, seen=_nameless(line))
                     for line in lines if line.check not in LEFT_OUT))


def _nameless(line: Line) -> str:
    return "" if line.check in NAMELESS and line.verdict is not Verdict.OK else (
        "" if line.check in ("docker-snap", "rdma-address") else line.seen)
