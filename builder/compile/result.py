"""What a compile left in its result folder, as checked values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from builder.errors import EngineError
from builder.limits import RECORD_BYTES, read_file
from builder.model import Frozen

FILE, LOG, FILES = "result.json", "log.txt", "files"


class Made(Frozen):
    """One object: what it took; ``status`` is the compiler's."""

    object: str
    seconds: float
    cpu_seconds: float
    peak_memory: int
    status: int


class Attempt(Frozen):
    """One run of ninja; ``killed`` for memory or not."""

    jobs: int
    status: int
    killed: bool
    killed_objects: tuple[str, ...] = ()


class Result(Frozen):
    """``result.json``: complete or failed, with every object and attempt."""

    status: str
    step: str = ""
    seconds: float = 0
    machine: str = ""
    objects: tuple[Made, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    available_memory: int = 0
    compilers: Mapping[str, str] = Field(default_factory=dict)
    cache_hits: int = 0
    cache_misses: int = 0
    cache_bytes: int = 0

    @property
    def made(self) -> tuple[Made, ...]:
        """Return the objects of the build itself, without CMake's own tests of the compiler."""
        return tuple(one for one in self.objects if one.object and "/cmTC_" not in one.object
                     and "CMakeScratch" not in one.object and ".dir/" in one.object)

    @property
    def cpu_seconds(self) -> float:
        """Return the processor time of all objects."""
        return sum(one.cpu_seconds for one in self.made)

    @property
    def peak_memory(self) -> int:
        """Return the most memory that one compile took."""
        return max((one.peak_memory for one in self.made), default=0)


def read_result(folder: Path) -> Result:
    """Return the result in ``folder``; EngineError where the build left none that can be read."""
    path = folder / FILE
    try:
        return Result.model_validate(json.loads(read_file(path, RECORD_BYTES, "result")))
    except (OSError, ValueError, ValidationError) as error:
        raise EngineError(f"the build ended without a result: {error}", where=str(path),
                          next_step="check the engine's log, then run the same command again"
                          ) from error
