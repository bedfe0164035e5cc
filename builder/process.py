"""The one way to run a program: the command is echoed, output is limited, failures are errors."""

from __future__ import annotations

import errno
import io
import os
import selectors
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from builder import console
from builder.errors import HostError, SparkyardError
from builder.errors import command as our_command
from builder.limits import LINE_BYTES, MB, OUTPUT_BYTES, SCRIPT_S, TooMuchError
from builder.process_group import (
    GRACE_S,
    KILLED_WITHIN_S,
    admit,
    end_group,
    kill_group,
    of_this_thread,
)

OVERDUE = 124  # the status of a command that was ended because it took too long, as of timeout(1)
_TAIL_CHARS = 4_000
_CHUNK_BYTES = 1 << 16
_PIPE_BYTES = 512  # what a pipe that is ready for writing takes without blocking


@dataclass(frozen=True)
class Result:
    """What a finished command said: exit status and both streams as text."""

    command: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


class CommandError(SparkyardError):
    """A command that had to succeed did not; carries its result for the caller to explain."""

    def __init__(self, result: Result) -> None:
        """Show the command and the last lines that it printed."""
        tail = "\n".join((result.stderr or result.stdout).strip().splitlines()[-15:])[-_TAIL_CHARS:]
        super().__init__(
            f"{result.command[0]} ended with status {result.returncode}\n{tail}",
            where=shlex.join(result.command),
        )
        self.result = result


def merged(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return this process's environment with ``env`` laid over it."""
    return {**os.environ, **(env or {})}


def run(
    command: Sequence[str | Path],
    *,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout: float = SCRIPT_S,
    cwd: Path | None = None,
    limit: int = OUTPUT_BYTES,
    terminal: bool = False,
) -> Result:
    """Run ``command`` (never through a shell), capture both streams, return the result.

    Raises CommandError when ``check`` and the status is not 0, with status ``OVERDUE`` after
    ``timeout`` seconds, and when a stream has more than ``limit`` bytes; HostError when the
    program is not installed. With ``terminal`` it may ask something there, as sudo does, and it has
    to end by itself what it starts.
    """
    words = tuple(str(word) for word in command)
    console.debug("$ " + shlex.join(words))
    admit()
    try:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=merged(env), cwd=cwd,
            process_group=None if terminal else 0)
    except OSError as error:
        raise _unstarted(words[0], error) from error
    with _ended(child, GRACE_S, grouped=not terminal):
        exchange = _Exchange(child, stdin, limit, timeout)
        problem = exchange.complete()
        if problem and not terminal:
            kill_group(child.pid)
    if problem:
        raise CommandError(Result(words, OVERDUE, exchange.text("stdout"), problem))
    result = Result(words, child.returncode, exchange.text("stdout"), exchange.text("stderr"))
    if check and result.returncode != 0:
        raise CommandError(result)
    return result


class _Exchange:
    """Feeds a child and reads both of its streams, until it ends or must be ended."""

    def __init__(self, child: subprocess.Popen[bytes], stdin: bytes | None, limit: int,
                 timeout: float) -> None:
        self._child, self._limit = child, limit
        self._end = time.monotonic() + timeout
        self._late = f"it did not end within {timeout:g} s"
        self._input = memoryview(stdin or b"")
        self._texts = {"stdout": bytearray(), "stderr": bytearray()}

    def text(self, stream: str) -> str:
        """Return what came on ``stdout`` or ``stderr``."""
        return _text(bytes(self._texts[stream]))

    def complete(self) -> str:
        """Exchange everything; return why the child must be ended, or nothing where it ended."""
        with selectors.DefaultSelector() as waiting:
            for name in self._texts:
                waiting.register(getattr(self._child, name), selectors.EVENT_READ, name)
            if self._child.stdin:
                waiting.register(self._child.stdin, selectors.EVENT_WRITE, "stdin")
            while waiting.get_map():
                ready = waiting.select(self._left())
                if not ready and self._left() == 0:
                    return self._late
                for key, _ in ready:
                    if not self._step(key.data, key.fd):
                        waiting.unregister(key.fileobj)
                if any(len(text) > self._limit for text in self._texts.values()):
                    return f"it printed more than {self._limit / MB:g} MB"
        try:
            self._child.wait(self._left())
        except subprocess.TimeoutExpired:
            return self._late
        return ""

    def _left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def _step(self, name: str, descriptor: int) -> bool:
        """Read or write a piece; False where the stream is at its end."""
        if name == "stdin":
            try:
                self._input = self._input[os.write(descriptor, self._input[:_PIPE_BYTES]):]
            except BrokenPipeError:  # it ended without reading all of it
                self._input = self._input[:0]
            if not self._input and self._child.stdin:
                self._child.stdin.close()
            return bool(self._input)
        piece = os.read(descriptor, _CHUNK_BYTES)
        self._texts[name] += piece
        return bool(piece)


def lines(child: subprocess.Popen[bytes], limit: int = OUTPUT_BYTES) -> Iterator[str]:
    """Yield the lines of a streamed child as text, without their ends.

    A line longer than ``LINE_BYTES`` is cut. Raises TooMuchError past ``limit`` bytes in all.
    """
    assert child.stdout is not None
    total = 0
    while line := child.stdout.readline(LINE_BYTES):
        total += len(line)
        if total > limit:
            raise TooMuchError(f"more than {limit / MB:g} MB")
        yield _text(line).rstrip("\n")


class TimedReader(io.RawIOBase):
    """A program's output that does not make its reader wait for ever; raises TimeoutError.

    ``silence`` limits one wait in seconds, ``total`` all of them and the reader's own time.
    """

    def __init__(self, pipe: IO[bytes], silence: float, total: float) -> None:
        """Read from ``pipe``, whose own buffer must be empty."""
        self._pipe, self._silence = pipe, silence
        self._end, self._total = time.monotonic() + total, total

    def readable(self) -> bool:
        """Say yes: this is what the class is for."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` with what is there, waiting for the first byte only."""
        left = max(0.0, self._end - time.monotonic())
        with selectors.DefaultSelector() as ready:
            ready.register(self._pipe, selectors.EVENT_READ)
            come = bool(left) and ready.select(min(self._silence, left))
        if not come:
            raise TimeoutError(f"no output for {self._silence:.0f} s" if self._silence < left
                               else f"not finished after {self._total:.0f} s")
        return os.readv(self._pipe.fileno(), [buffer])


@contextmanager
def stream(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    stderr: int | IO[bytes] | None = subprocess.STDOUT,
    grace: float = GRACE_S,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``command`` with its standard output as a pipe; it never outlives the block.

    For long commands whose output is followed (server logs) or whose input is fed (bytecode). One
    that is asked to end is killed after ``grace`` seconds.
    """
    words = [str(word) for word in command]
    console.debug("$ " + shlex.join(words))
    admit()
    try:
        child = subprocess.Popen(
            words, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, env=merged(env),
            process_group=0)
    except OSError as error:
        raise _unstarted(words[0], error) from error
    with _ended(child, grace):
        yield child


def detach(command: Sequence[str | Path], log: Path) -> None:
    """Start ``command`` in a session of its own, so that it outlives this program and Ctrl-C.

    For services where there is no init; both streams go to the end of ``log``.
    """
    words = [str(word) for word in command]
    console.debug("$ setsid " + shlex.join(words))
    with log.open("ab") as stream_to:
        try:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=stream_to,
                                     stderr=subprocess.STDOUT, start_new_session=True, cwd="/")
        except OSError as error:
            raise _unstarted(words[0], error) from error
    child.returncode = 0  # nobody waits for it, and Python need not warn that it still runs


@contextmanager
def _ended(child: subprocess.Popen[bytes], grace: float, *, grouped: bool = True
           ) -> Iterator[None]:
    """Let ``child`` live as long as the block, with all that it started, and reap it.

    One that is not ``grouped`` is ended alone.
    """
    cut_off = True
    try:
        with of_this_thread(child.pid) if grouped else nullcontext():
            yield
        cut_off = False
    finally:
        try:
            if grouped and (cut_off or child.poll() is None):
                end_group(child.pid, grace)
            elif child.poll() is None:
                _end_alone(child, grace)
        finally:
            _let_go(child)


def _end_alone(child: subprocess.Popen[bytes], grace: float) -> None:
    """Terminate, then kill; sudo, which is another user's, hears of the terminal itself."""
    with suppress(PermissionError):
        child.terminate()
        try:
            child.wait(timeout=grace)
        except subprocess.TimeoutExpired:
            child.kill()


def _let_go(child: subprocess.Popen[bytes]) -> None:
    """Close the pipes and reap; one that may not be killed is not waited for."""
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # the child went first: nothing is left to flush to
    with suppress(subprocess.TimeoutExpired):
        child.wait(KILLED_WITHIN_S)


def _unstarted(program: str, error: OSError) -> HostError:
    if isinstance(error, FileNotFoundError):
        return HostError(
            f"the program {program} is not installed", where="PATH",
            next_step=f"install it, or run {our_command('engine')} for everything a build needs",
        )
    what = f"the program {program} cannot be started: {error.strerror}"
    if error.errno in (errno.ENOEXEC, errno.EACCES):
        return HostError(what, where="PATH", next_step="install it again, or take it out of PATH")
    return HostError(what, where="this machine",
                     next_step="see what memory (`free -m`) and number of processes "
                     "(`ulimit -u`) are left, and run it again")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
