"""Ending a program together with all that it started: a process group, asked first and then killed.

A program that is ended alone leaves behind what it started itself: docker its plugin buildx,
timeout(1) what it watches, dpkg a package's script. Only a group of their own holds them together.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

GRACE_S = 10.0  # between the request to end and the kill; buildx takes one second to cancel a build
KILLED_WITHIN_S = 2.0  # a process may be in the kernel when it is killed
LOOK_EVERY_S = 0.05
PARENT = "SPARKYARD_PARENT"  # the process whose death is a request to end
OPEN, CLOSED = "open", "closed"
# Leads a group, and notes its number, which is its own, before it becomes the command.
NOTE = ': >"$0/$$" && exec "$@"'

_of_workers: dict[int, int] = {}  # groups that threads of pools have started: their threads
_tied_of_workers: dict[Path, int] = {}
_told: set[int] = set()  # threads that have been told of an interruption
_interrupted = False


@contextmanager
def tied(seconds: float) -> Iterator[list[str]]:
    """Give the words to put before a command that a library starts: it never outlives the block.

    timeout(1) ends it after ``seconds``. The kernel asks it to end, by setpriv(1), when the thread
    that started it is gone: nothing of ours runs after a SIGKILL.
    """
    admit()
    with tempfile.TemporaryDirectory(prefix="sparkyard-tied-") as name:
        folder = Path(name)
        (folder / OPEN).mkdir()
        if _is_worker():
            _tied_of_workers[folder] = threading.get_ident()
        try:
            yield ["setsid", "setpriv", "--pdeathsig", "TERM", "sh", "-c", NOTE,
                   str(folder / OPEN), "timeout", "--kill-after=10", f"{seconds:.0f}"]
        except BaseException:
            for group in _noted(folder):
                end_group(group)
            raise
        finally:
            _tied_of_workers.pop(folder, None)


def _noted(folder: Path) -> list[int]:
    """Return the groups that were started; what is not by now cannot note itself, and will not."""
    with suppress(FileNotFoundError):  # it was closed before
        (folder / OPEN).rename(folder / CLOSED)
    with suppress(FileNotFoundError):  # its block has just ended
        return [int(note.name) for note in (folder / CLOSED).iterdir()]
    return []


@contextmanager
def of_this_thread(group: int) -> Iterator[None]:
    """Hold a group as that of the thread that started it: an interruption may end it, too."""
    if not _is_worker():
        yield
        return
    _of_workers[group] = threading.get_ident()
    try:
        if _interrupted and threading.get_ident() not in _told:  # it came since ``admit``
            _told.add(threading.get_ident())
            _tell(group, signal.SIGTERM)
        yield
    finally:
        del _of_workers[group]


def admit() -> None:
    """Raise KeyboardInterrupt in a thread of a pool that goes on after an interruption, once.

    What it starts on its way out, to clean up, is let through.
    """
    thread = threading.get_ident()
    if _interrupted and _is_worker() and thread not in _told:
        _told.add(thread)
        raise KeyboardInterrupt


def interrupt_workers() -> None:
    """End what the threads of pools have started, or the main thread waits for it on its way out.

    For the handler of a signal, which only the main thread hears.
    """
    global _interrupted
    _interrupted = True
    groups = [*_of_workers.items(), *((group, thread) for folder, thread in
              list(_tied_of_workers.items()) for group in _noted(folder))]
    for group, thread in groups:
        _told.add(thread)
        _tell(group, signal.SIGTERM)


def _is_worker() -> bool:
    """Say whether a pool has this thread: nothing waits for a daemon, and it ends by itself."""
    thread = threading.current_thread()
    return thread is not threading.main_thread() and not thread.daemon


def end_group(group: int, grace: float = GRACE_S) -> None:
    """Ask every process of a group to end, kill what has not after ``grace`` seconds.

    A second interruption kills at once: nobody waits any longer.
    """
    try:
        _tell(group, signal.SIGTERM)
        _tell(group, signal.SIGCONT)  # or one that is stopped would not hear it
        if _gone(group, grace):
            return
    except BaseException:
        _tell(group, signal.SIGKILL)
        raise
    _tell(group, signal.SIGKILL)
    _gone(group, KILLED_WITHIN_S)


def kill_group(group: int) -> None:
    """Kill every process of a group."""
    _tell(group, signal.SIGKILL)


def members(group: int) -> list[int]:
    """Return the processes of a group that live; one that has ended and is not reaped does not."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it may end while it is looked at
            state, _, its_group = path.read_bytes().rpartition(b")")[2].split()[:3]
            if int(its_group) == group and state not in (b"Z", b"X"):
                found.append(int(path.parent.name))
    return found


def _gone(group: int, within: float) -> bool:
    """Wait until nothing of a group lives; False where something still does."""
    end = time.monotonic() + within
    while members(group):
        if time.monotonic() > end:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def _tell(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
