"""The docker program: each call to it, with a limit in time and bytes, and its answers checked.

``docker`` itself waits for ever for an engine that hangs, and a program of that name may answer
nothing at all with status 0. Both become an EngineError here, and nowhere else.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from subprocess import Popen, TimeoutExpired
from typing import BinaryIO, TypeVar, cast

from builder import limits, process
from builder.engine.errors import explain
from builder.errors import EngineError, command
from builder.process import CommandError
from builder.text import quoted, redact

LOG_LINES = 200  # kept of a long command's output, for the error
SHOWN = 200  # characters shown of an answer that cannot be read
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)
HUNG_STEP = (f"check the engine's log and its load, restart it if it hangs "
             f"({command('engine')} finds out), then run the same command again")

T = TypeVar("T")


@dataclass(frozen=True)
class DockerClient:
    """The docker program with its global options; failures come as our own errors.

    ``patience`` limits a question in seconds where its caller says nothing else.
    """

    words: tuple[str, ...]
    patience: float = limits.ENGINE_ASK_S

    def run(self, *arguments: str, doing: str, where: str = "", check: bool = True,
            stdin: bytes | None = None, timeout: float | None = None,
            limit: int | None = None) -> process.Result:
        """Run one docker command; raise what ``explain`` makes of its failure when ``check``.

        Raises EngineError after ``timeout`` seconds (else ``patience``) and for output of more
        than ``limit`` bytes, which is less where an answer is read as JSON. ``doing`` begins the
        message: "asking the Docker engine for its version".
        """
        try:
            result = process.run([*self.words, *arguments], check=False, stdin=stdin,
                                 timeout=timeout or self.patience,
                                 limit=limit or limits.OUTPUT_BYTES)
        except CommandError as error:
            raise hung(doing, error.result.stderr, where) from error
        if check and result.returncode != 0:
            raise explain(result.stderr or result.stdout, doing, where)
        return result

    def ask(self, *arguments: str, read: Callable[[str], T], doing: str, where: str = "",
            timeout: float | None = None) -> T:
        """Return what ``read`` makes of a command's output; EngineError where it cannot."""
        result = self.run(*arguments, doing=doing, where=where, timeout=timeout,
                          limit=limits.ENGINE_ANSWER_BYTES)
        return parsed(result.stdout, read, doing, where)

    def follow(self, *arguments: str, doing: str, where: str = "",
               env: Mapping[str, str] | None = None,
               silence: float = limits.ENGINE_SILENCE_S) -> Iterator[str]:
        """Yield the lines of a long command; raises what ``explain`` makes of its failure."""
        tail: deque[str] = deque(maxlen=LOG_LINES)
        with process.stream([*self.words, *arguments], env=env) as child, \
                timed_output(child, silence, doing, where) as output:
            for raw in iter(partial(output.readline, limits.LINE_BYTES), b""):
                line = raw.decode("utf-8", "replace").rstrip("\r\n")
                tail.append(line)
                yield line
            status = child.wait(limits.ENGINE_ASK_S)
        if status != 0:
            raise explain("\n".join(tail), doing, where)

    @contextmanager
    def output(self, *arguments: str, doing: str, where: str = "") -> Iterator[BinaryIO]:
        """Stream a command's standard output as bytes; EngineError when it stops half-way."""
        with process.stream([*self.words, *arguments], stderr=None) as child, \
                timed_output(child, limits.ENGINE_EXPORT_SILENCE_S, doing, where) as output:
            yield output
            while output.read(1 << 20):  # what the reader left, or the engine waits for ever
                pass
            if child.wait(limits.ENGINE_ASK_S) != 0:
                raise EngineError(f"{doing}: the engine stopped half-way", where=where,
                                  next_step="check the engine's log, then run the same command "
                                  "again")


@contextmanager
def timed_output(child: Popen[bytes], silence: float, doing: str, where: str,
                 total: float = limits.ENGINE_TRANSFER_S) -> Iterator[BinaryIO]:
    """Give the program's output to the block; a TimeoutError of it becomes an EngineError."""
    assert child.stdout is not None
    reader = process.TimedReader(child.stdout, silence, total)
    try:
        yield cast(BinaryIO, io.BufferedReader(reader, 1 << 20))
    except (TimeoutError, TimeoutExpired) as error:
        raise hung(doing, str(error), where) from error


def parsed(text: str, read: Callable[[str], T], doing: str, where: str = "") -> T:
    """Return ``read(text)``; EngineError, with the answer's beginning, where it cannot be read."""
    try:
        return read(text)
    except UNREADABLE as error:
        raise EngineError(
            f"{doing}: the docker program answered {redact(quoted(text[:4 * SHOWN], SHOWN))}, "
            "which is not an answer of Docker", where=where,
            next_step="check that `docker` in PATH is Docker's client and that `docker info` "
            "works") from error


def hung(doing: str, limit: str, where: str = "") -> EngineError:
    """Return the error of a docker command that went beyond ``limit``, a text like "no … 60 s"."""
    return EngineError(f"{doing}: the Docker engine did not complete it ({limit})", where=where,
                       next_step=HUNG_STEP)


