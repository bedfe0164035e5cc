"""What a compile left in its result folder, as checked values."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from builder.errors import EngineError, VerdictError
from builder.limits import LOG_BYTES, RECORD_BYTES, read_file
from builder.model import Frozen
from builder.text import one_line

FILE, LOG, FILES = "result.json", "log.txt", "files"
SHOWN = 300  # characters of what is wrong with a result


class Made(Frozen):
    """One object: what it took; ``status`` is the compiler's."""

    object: str
    seconds: float
    cpu_seconds: float
    peak_memory: int
    status: int


class CompiledSource(Frozen):
    """A source of the targets; ``kernels`` are the templates that it instantiates by name."""

    source: str
    kernels: int = 0


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
    shared_errors: int = 0  # the shared cache did not answer
    cache_bytes: int = 0
    sources: tuple[CompiledSource, ...] = ()  # of all objects, where only some were asked for

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
    links = [item for item in folder.rglob("*") if item.is_symlink()]
    if links:  # what they lead to on this machine would be taken for what was compiled
        raise VerdictError("the build left a symbolic link", where=str(
            links[0].relative_to(folder)), next_step="correct the build: it has to leave files")
    try:
        return Result.model_validate(json.loads(read_file(path, RECORD_BYTES, "result")))
    except (OSError, ValueError, ValidationError, RecursionError) as error:
        raise EngineError(f"the build ended without a result: {one_line(str(error), SHOWN)}",
                          where=str(path), next_step="check the engine's log, then run the same "
                          "command again") from error


def read_lines(log: Path) -> list[str]:
    """Return the lines of a build's log; of a very long one those of both of its ends."""
    half = LOG_BYTES // 2
    with log.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        data = stream.read(half if size > LOG_BYTES else LOG_BYTES)
        if size > LOG_BYTES:
            stream.seek(-half, os.SEEK_END)
            data += b"\n" + stream.read(half)
    return data.decode("utf-8", "replace").splitlines()
