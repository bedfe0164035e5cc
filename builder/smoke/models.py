"""The values of a smoke run: what is run (``Run``), and what is observed beside its checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock as ThreadLock
from typing import TextIO

from builder.engine.client import Engine, ImageFacts
from builder.files import disk_errors
from builder.limits import LOG_BYTES, patience
from builder.locking.lock import Lock
from builder.matrix.cells import Cell
from builder.patches.revision import as_patched
from builder.recipes.models import Recipe
from builder.record.gpu import Gpu
from builder.record.models import Level
from builder.text import redact
from builder.workspace import Workspace

TOO_LONG = "[sparkyard] this log is too long: the rest is not in the file"


@dataclass(frozen=True)
class Run:
    """What a run needs; ``model`` is the folder of the checkpoint, where it is one.

    ``image`` is called ``reference``; ``foreign`` is one that need not hold what the lock says.
    ``soak`` are the minutes of mixed load after the questions of level 2.
    """

    workspace: Workspace
    engine: Engine
    cell: Cell
    lock: Lock
    level: Level
    recipe: Recipe
    model: Path | None
    reference: str
    image: ImageFacts
    foreign: bool = False
    soak: int = 0

    @property
    def emulated(self) -> bool:
        """Say whether the engine's machine has another processor than the image is for."""
        return self.cell.platform != self.engine.info.platform

    @property
    def patience(self) -> float:
        """Return by how much the limits on its server are multiplied."""
        return patience(emulated=self.emulated)

    @property
    def installed(self) -> Lock:
        """Return the lock with the versions that a patched image has."""
        return as_patched(self.lock, self.image.labels)


class KeptLog(list[str]):
    """The lines of a log in memory and, as they come, at the end of a file.

    A disk that is full does not end the thread that follows the log: ``failed`` tells. Beyond
    ``limit`` characters the file ends with a line that says so, and memory keeps both ends.
    """

    def __init__(self, path: Path | None = None, limit: int = LOG_BYTES) -> None:
        """Begin an empty log; without a path it is kept in memory only."""
        super().__init__()
        self.failed: OSError | None = None
        self._limit, self._written, self._held = limit, 0, 0
        self._head = 0  # lines of the beginning that are never dropped
        self._folder = path.parent if path else Path()
        self._file: TextIO | None = None
        self._turn = ThreadLock()  # a thread may still follow the log when it is closed
        if path:
            with disk_errors(path.parent, "while the log was begun"):
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("w", encoding="utf-8", buffering=1)

    def append(self, line: str) -> None:
        """Keep one more line, without the secrets of this machine's environment."""
        line = redact(line)
        super().append(line)
        self._held += len(line) + 1
        if self._held <= self._limit // 2:
            self._head = len(self)
        elif self._held > self._limit:
            self._drop_middle()
        with self._turn:
            if self._file and not self.failed and self._written <= self._limit:
                self._written += len(line) + 1
                try:
                    self._file.write((line if self._written <= self._limit else TOO_LONG) + "\n")
                except OSError as error:
                    self.failed = error

    def _drop_middle(self) -> None:
        """Forget the older half of what came after the beginning."""
        middle = (self._head + len(self) + 1) // 2
        self._held -= sum(len(line) + 1 for line in self[self._head:middle])
        del self[self._head:middle]

    def raise_if_full(self) -> None:
        """Raise what the file system said of a line that could not be written (DiskError)."""
        if self.failed:
            with disk_errors(self._folder, "while the log was written"):
                raise self.failed

    def close(self) -> None:
        """Close the file; the lines stay, and later ones are kept in memory only."""
        with self._turn:
            file, self._file = self._file, None
            if file:
                try:
                    file.close()
                except OSError as error:  # what could not be written when it came cannot be now
                    self.failed = error


@dataclass
class Observations:
    """The log, the seconds of each boot phase, the container's GPUs and the server's counters."""

    log: list[str] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    gpus: tuple[Gpu, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
