"""The state of the host right before a run, as the doctor saw it: what may explain a result.

Nothing in it names the machine: no address, no user and no path of the host.
"""

from __future__ import annotations

from typing import Literal

from builder.model import Frozen


class HostCheck(Frozen):
    """One check of the doctor: what was seen, and what it comes to."""

    check: str
    verdict: Literal["ok", "warning", "unfit", "unseen"]
    seen: str


class HostState(Frozen):
    """What the doctor saw; memory in bytes, None where a value could not be read.

    ``clock`` and ``clock_limit`` are those of the GPU in MHz, ``power`` in W; ``holders`` are the
    programs that hold GPU memory, ``adapters`` the RDMA adapters with a link.
    """

    memory_available: int | None = None
    page_cache: int | None = None
    swap: int = 0
    driver_cuda: str | None = None
    clock: float | None = None
    clock_limit: float | None = None
    power: float | None = None
    holders: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    checks: tuple[HostCheck, ...]

    @property
    def complains(self) -> bool:
        """Say whether the doctor found something that may explain a result."""
        return any(check.verdict in ("unfit", "warning") for check in self.checks)

    def __str__(self) -> str:
        """Return one line: what is unfit, what is a warning, and how many checks are fine."""
        named = {verdict: [check.check for check in self.checks if check.verdict == verdict]
                 for verdict in ("unfit", "warning", "unseen")}
        parts = [f"{verdict}: {', '.join(checks)}" for verdict, checks in named.items() if checks]
        fine = sum(check.verdict == "ok" for check in self.checks)
        return "; ".join([*parts, f"{fine} ok"])
