"""The machine that a record was made on: what may explain a difference, and nothing that names it.

No host name, no user, no path, no address: a record may be published.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from builder.model import Frozen

if TYPE_CHECKING:  # a report reads records and needs no Docker client, which costs half a second
    from builder.engine.client import EngineInfo


class HostFacts(Frozen):
    """The engine's machine; ``memory`` in bytes, ``cpu`` empty where the engine is elsewhere."""

    kernel: str
    machine: str
    system: str
    cpu: str
    cpus: int
    memory: int
    engine: str


def host_facts(info: EngineInfo, proc: Path = Path("/proc")) -> HostFacts:
    """Return what the engine says of its machine, and its processor where it is this machine."""
    here = info.kernel == platform.release()
    return HostFacts(kernel=info.kernel, machine=info.machine, system=info.system,
                     cpu=cpu_model(proc) if here else "", cpus=info.cpus, memory=info.memory,
                     engine=f"Docker {info.version}")


def cpu_model(proc: Path) -> str:
    """Return the processor's model; arm64 kernels know it by two numbers only."""
    try:
        text = (proc / "cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    pairs = (line.partition(":") for line in text.splitlines())
    facts = {key.strip(): value.strip() for key, _, value in pairs}
    if "model name" in facts:
        return facts["model name"]
    numbers = [f"{key[4:]} {facts[key]}" for key in ("CPU implementer", "CPU part")
               if key in facts]
    return ", ".join(numbers)
