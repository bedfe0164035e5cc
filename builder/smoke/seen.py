"""What a run learns beside its checks, kept as it comes, so that a run cut off has it too."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TextIO

from builder.files import disk_errors
from builder.record.gpu import Gpu


class KeptLog(list[str]):
    """The lines of a log in memory and, as they come, at the end of a file.

    A disk that is full does not end the thread that follows the log: ``failed`` tells.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Begin an empty log; without a path it is kept in memory only."""
        super().__init__()
        self.failed: OSError | None = None
        self._folder = path.parent if path else Path()
        self._file: TextIO | None = None
        self._turn = Lock()  # a thread may still follow the log when it is closed
        if path:
            with disk_errors(path.parent, "while the log was begun"):
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("w", encoding="utf-8", buffering=1)

    def append(self, line: str) -> None:
        """Keep one more line."""
        super().append(line)
        with self._turn:
            if self._file and not self.failed:
                try:
                    self._file.write(line + "\n")
                except OSError as error:
                    self.failed = error

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
class Seen:
    """The log, the seconds of each boot phase, the container's GPUs and the server's counters."""

    log: list[str] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    gpus: tuple[Gpu, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
