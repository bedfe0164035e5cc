"""A log as lines, bounded in bytes and time; what is not a log is refused."""

from __future__ import annotations

import os
import re
import select
import stat
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from builder import console, limits
from builder.diagnosis.packed import GZIP_MAGIC, unpacked
from builder.errors import UsageError

END_BYTES = 8_000_000  # of a log's beginning and of its end: a boot with all its tracebacks is 1 MB
CHUNK_BYTES = 1 << 20
LINE_LIMIT = 10_000  # characters; what fails is told at a line's beginning
NEXT_STEP = "name the server's log (docker logs NAME >server.log 2>&1), or - for standard input"
# What programs write: a level, a time, a process, a traceback, a raised error.
OF_A_LOG = re.compile(
    r"\b(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b[ :\]]|^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|"
    r"^\[ *\d+\.\d+\] |^\(\w+ pid=\d+\)|Traceback \(most recent call last\)|"
    r"^\s*File \".+\", line \d+|(?:^|[ .])\w+(?:Error|Exception|Warning)(?::|$)|"
    r"\bfatal ?(?:error)?:|HTTP/1\.1\" \d{3}")


@dataclass(frozen=True)
class LogText:
    """The lines of a log, the bytes of its middle left out, and why its end is not there."""

    lines: tuple[str, ...]
    skipped: int = 0
    cut_off: str = ""

    @property
    def looks_like_a_log(self) -> bool:
        """Say whether any line is as programs log."""
        return any(OF_A_LOG.search(line) for line in self.lines)


def read_log(name: str) -> LogText:
    """Read a file, standard input (``-``) or a shell's ``<(…)``; of a very long one both ends.

    What is packed by gzip is unpacked.

    Raises UsageError for what cannot be read, is empty, or holds binary data.
    """
    try:
        if name == "-":
            data, skipped, cut_off = _read_stream(sys.stdin.buffer, "standard input")
        else:
            data, skipped, cut_off = _read_path(Path(name))
    except OSError as error:
        raise UsageError(f"the log cannot be read: {error.strerror}", where=name,
                         next_step=NEXT_STEP) from error
    if not data.strip():
        raise UsageError("the log is empty", where=name, next_step=NEXT_STEP)
    if b"\0" in data[:CHUNK_BYTES]:
        raise UsageError("this is not a log: it holds binary data", where=name, next_step=NEXT_STEP)
    text = data.decode("utf-8", errors="replace")
    return LogText(tuple(line[:LINE_LIMIT] for line in text.splitlines()), skipped, cut_off)


def _read_path(path: Path) -> tuple[bytes, int, str]:
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not (stat.S_ISFIFO(mode) and _is_of_a_shell(path)):
        raise UsageError("a log must be a regular file, not a folder, device or named pipe",
                         where=str(path), next_step=NEXT_STEP)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe cannot hang
    with os.fdopen(descriptor, "rb") as stream:
        if stat.S_ISFIFO(mode):
            return _read_stream(stream, str(path))
        if stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
            stream.seek(0)
            return _two_ends(unpacked(iter(lambda: stream.read(CHUNK_BYTES), b"")))
        stream.seek(0)
        size = os.fstat(descriptor).st_size
        if size <= 2 * END_BYTES:
            return stream.read(2 * END_BYTES), 0, ""
        begin = stream.read(END_BYTES)
        stream.seek(size - END_BYTES)
        return begin + b"\n" + stream.read(END_BYTES), size - 2 * END_BYTES, ""


def _is_of_a_shell(path: Path) -> bool:
    """Say whether this is an open pipe of this process: /dev/fd/63, of ``diagnose <(docker logs)``.

    A pipe with a name of its own in some folder may never have a writer.
    """
    return re.fullmatch(r"/proc/\d+/fd", os.path.realpath(path).rpartition("/")[0]) is not None


def _read_stream(stream: BinaryIO, name: str) -> tuple[bytes, int, str]:
    console.info(f"reading {name}, for {limits.PAGE_S:g} s at most …")
    return _two_ends(unpacked(_chunks(stream, limits.PAGE_S)))


def _two_ends(chunks: Iterable[bytes | None]) -> tuple[bytes, int, str]:
    """Read what comes until its end, ``LOG_BYTES`` or None; keep its two ends."""
    begin, end = bytearray(), deque[bytes]()
    total = kept = 0
    cut_off = ""
    for chunk in chunks:
        if chunk is None:
            cut_off = f"it did not end within {limits.PAGE_S:.0f} s"
            break
        total += len(chunk)
        head = chunk[:max(0, END_BYTES - len(begin))]
        begin += head
        end.append(chunk[len(head):])
        kept += len(chunk) - len(head)
        while end and kept - len(end[0]) >= END_BYTES:
            kept -= len(end.popleft())
        if total > limits.LOG_BYTES:
            cut_off = f"it is longer than {limits.LOG_BYTES // limits.MB} MB"
            break
    skipped = total - len(begin) - kept
    return b"".join([begin, b"\n" if skipped else b"", *end]), skipped, cut_off


def _chunks(stream: BinaryIO, seconds: float) -> Iterator[bytes | None]:
    """Yield what a stream gives, None once its time is over."""
    end = time.monotonic() + seconds
    try:
        descriptor = stream.fileno()
    except OSError:  # not a stream of the system
        yield from iter(lambda: stream.read(CHUNK_BYTES), b"")
        return
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            yield None
            return
        chunk = os.read(descriptor, CHUNK_BYTES)
        if not chunk:
            return
        yield chunk
