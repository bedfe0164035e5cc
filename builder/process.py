"""The one subprocess wrapper: echoes the command, quoted, and turns failures into errors."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from builder import console
from builder.errors import SparkyardError, UsageError


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
        tail = "\n".join((result.stderr or result.stdout).strip().splitlines()[-15:])
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
    timeout: float | None = None,
    cwd: Path | None = None,
) -> Result:
    """Run ``command`` (never through a shell), capture both streams, return the result.

    Raises CommandError when ``check`` and the status is not 0, UsageError when the program is
    not installed. ``subprocess.TimeoutExpired`` is turned into CommandError with status 124.
    """
    words = tuple(str(word) for word in command)
    console.debug("$ " + shlex.join(words))
    try:
        done = subprocess.run(
            words, input=stdin, capture_output=True, env=merged(env), timeout=timeout, cwd=cwd,
            check=False,
        )
    except FileNotFoundError as error:
        raise _missing(words[0]) from error
    except subprocess.TimeoutExpired as error:
        late = Result(words, 124, _text(error.stdout), f"no end after {timeout} s")
        raise CommandError(late) from error
    result = Result(words, done.returncode, _text(done.stdout), _text(done.stderr))
    if check and result.returncode != 0:
        raise CommandError(result)
    return result


@contextmanager
def stream(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    stderr: int | IO[bytes] | None = subprocess.STDOUT,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``command`` with its standard output as a pipe; it never outlives the block.

    For long commands whose output is followed (server logs) or whose input is fed (bytecode).
    """
    words = [str(word) for word in command]
    console.debug("$ " + shlex.join(words))
    try:
        child = subprocess.Popen(
            words, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, env=merged(env)
        )
    except FileNotFoundError as error:
        raise _missing(words[0]) from error
    try:
        yield child
    finally:
        _end(child)


def detach(command: Sequence[str | Path], log: Path) -> None:
    """Start ``command`` in a session of its own, so that it outlives this program and Ctrl-C.

    For services where there is no init; both streams go to the end of ``log``.
    """
    words = [str(word) for word in command]
    console.debug("$ setsid " + shlex.join(words))
    try:
        with log.open("ab") as stream_to:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=stream_to,
                                     stderr=subprocess.STDOUT, start_new_session=True, cwd="/")
        child.returncode = 0  # nobody waits for it, and Python need not warn that it still runs
    except FileNotFoundError as error:
        raise _missing(words[0]) from error


def _end(child: subprocess.Popen[bytes]) -> None:
    """Terminate, then kill, and reap ``child``."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # the child went first: nothing is left to flush to
    child.wait()


def _missing(program: str) -> UsageError:
    return UsageError(
        f"the program {program} is not installed", where="PATH",
        next_step="install it, or run `nox -s engine` for everything a build needs",
    )


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")
