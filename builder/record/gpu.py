"""The GPUs that a container really has: only they make a figure one of a GB10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from builder.errors import EngineError
from builder.model import Frozen
from builder.process import CommandError, Result

Where = Literal["gb10", "gpu", "cpu", "emulated", "unseen"]  # unseen: a server found running
QUERY = ("nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")
GB10, GB10_CAPABILITY = "GB10", "12.1"
WITHIN_S = 60.0


class Gpu(Frozen):
    """One GPU as the driver names it; ``compute_capability`` is ``12.1`` for a GB10."""

    name: str
    compute_capability: str
    driver: str

    @property
    def is_gb10(self) -> bool:
        """Say whether it is a GB10: by its name and by what it can compute."""
        return GB10 in self.name.split() and self.compute_capability == GB10_CAPABILITY


class Box(Protocol):
    """What is needed of a container."""

    def exec(self, command: Sequence[str], *, timeout: float | None = None) -> Result:
        """Run a command inside."""


def gpus_in(box: Box) -> tuple[Gpu, ...]:
    """Ask the driver's own program in the container; a container without one has no GPU.

    Raises EngineError where it does not answer: that says nothing about the GPU.
    """
    try:
        answer = box.exec(QUERY, timeout=WITHIN_S)
    except (CommandError, EngineError) as error:
        raise EngineError(f"nvidia-smi did not answer in the container within {WITHIN_S:.0f} s",
                          where=QUERY[0], next_step="run `nvidia-smi` on this machine; if it hangs "
                          "there too, the driver has to be reset") from error
    rows = ([part.strip() for part in line.split(",")] for line in answer.stdout.splitlines())
    return tuple(Gpu(name=row[0], compute_capability=row[1], driver=row[2])
                 for row in rows if answer.returncode == 0 and len(row) == len(Gpu.model_fields))


def place(gpus: Sequence[Gpu], *, emulated: bool) -> Where:
    """Name where something is measured; ``gpu`` is any that is not a GB10."""
    if gpus and all(gpu.is_gb10 for gpu in gpus):
        return "gb10"
    if gpus:
        return "gpu"
    return "emulated" if emulated else "cpu"
