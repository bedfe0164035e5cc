"""One compile as values: what it takes (``Order``), what it returns (``Rebuilt``), and who does it.

The compiler side implements ``Compiler``; everything else (decision, key, assembling, sharing,
locking) is on this side of the border and knows no container, nvcc or log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import Field, field_validator

from builder.locking.base_lock import LockedBase
from builder.locking.lock import LockedWheel, Sha256
from builder.matrix.cells import Cell
from builder.model import Frozen
from builder.patches.apply import Blob
from builder.tarball import parents
from builder.wheels.recipe import Recipe, RelativePath

WHOLE = ""  # in place of a target's name: the file belongs to the whole package


@dataclass(frozen=True)
class AppliedPatch:
    """A patch in the sources: its name for people, version tag, sha256, and the files of it."""

    name: str
    tag: str
    sha256: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Order:
    """All that one compile needs, already fetched and checked.

    ``key`` names all inputs. ``targets`` are empty for a build of the whole package. ``source`` and
    ``external`` are archives in the store; ``changes`` are patched source files by their paths in
    the archive, below its top folder (None: deleted). ``torch`` is the locked wheel for the target
    machine and where it lies. ``published`` is the wheel whose files are replaced.
    """

    key: str
    cell: Cell
    recipe: Recipe
    version: str
    targets: tuple[str, ...]
    source: Path
    base: LockedBase
    changes: Mapping[str, Blob | None] = field(default_factory=dict)
    patches: tuple[AppliedPatch, ...] = ()
    external: Mapping[str, Path] = field(default_factory=dict)
    torch: tuple[LockedWheel, Path] | None = None
    published: tuple[LockedWheel, Path] | None = None
    jobs: int | None = None  # None: as many as the cores and the memory allow
    fresh: bool = False  # compile every object, whatever the compiler's cache has

    @property
    def architectures(self) -> tuple[str, ...]:
        """Return the GPU architectures of all targets, in order."""
        return tuple(sorted({arch for name in self.targets
                             for arch in self.recipe.targets[name].architectures}))

    @property
    def title(self) -> str:
        """Return what is compiled, for people."""
        what = ", ".join(self.targets) if self.targets else "the whole package"
        return f"{self.recipe.name} {self.version}: {what}"


class RebuiltFile(Frozen):
    """One file of the wheel as it was compiled; ``target`` is empty for a whole package's wheel."""

    path: RelativePath
    sha256: Sha256
    size: Annotated[int, Field(ge=0)]
    target: str = WHOLE


class Provenance(Frozen):
    """How it was compiled: where and with what, and what it took.

    ``machine`` is the processor that compiled (``x86_64``), ``compilers`` maps names to versions,
    ``tools`` is the digest of everything else that compiled: image, packages, wheels.
    """

    mode: Literal["native", "cross", "emulated"]
    machine: str
    compilers: Mapping[str, str]
    tools: str = ""
    seconds: float
    cpu_seconds: float = 0
    peak_memory: int = 0
    jobs: int = 1
    objects: int
    cache_hits: int = 0
    cache_misses: int = 0

    @property
    def hit_rate(self) -> float | None:
        """Return the share of objects that the compiler's cache had; None where none was asked."""
        asked = self.cache_hits + self.cache_misses
        return self.cache_hits / asked if asked else None


class Rebuilt(Frozen):
    """What a compile returns: its key, the files, and how they were made."""

    key: Sha256
    files: tuple[RebuiltFile, ...]
    provenance: Provenance

    @field_validator("files")
    @classmethod
    def _each_at_a_place_of_its_own(cls, files: tuple[RebuiltFile, ...]
                                    ) -> tuple[RebuiltFile, ...]:
        paths = {file.path for file in files}
        if len(paths) < len(files) or any(paths.intersection(parents(path)) for path in paths):
            raise ValueError("a file is named twice, or as the folder of another one")
        return files


class Compiler(Protocol):
    """What compiles an order."""

    def fingerprint(self, recipe: Recipe, cell: Cell) -> str:
        """Return the digest of what compiles, as far as the bytes depend on it; no long work.

        It enters the key: the toolchain's own code, versions and packages, but not whether the
        compile is native or cross.
        """

    def compile(self, order: Order, output: Path) -> Rebuilt:
        """Compile into ``output`` (an empty folder), each file at its path in the wheel.

        Raises VerdictError with the first real error of the log and what to do, EngineError and
        DiskError. A build of a whole package leaves one wheel in ``output``.
        """
