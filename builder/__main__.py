"""``sparkyard`` and ``python -m builder``."""

from __future__ import annotations

import ctypes
import io
import logging
import os
import signal
import stat
import sys
import warnings
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from builder.errors import INTERRUPTED_EXIT_CODE
from builder.process_group import PARENT, interrupt_workers

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run the command line of this process and return its exit code.

    A request to end (SIGTERM) and a terminal that is closed (SIGHUP) clean up as Ctrl-C does. A
    character that the terminal's encoding lacks is written as an escape, and never ends the
    program. Only we speak on the terminal.
    """
    _open_standard_streams()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, and jobs of a script
            signal.signal(number, _interrupt)
    _end_with_parent()
    logging.getLogger().addHandler(logging.NullHandler())  # or libraries print tracebacks
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # of libraries, and of foreign sources that are parsed
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        from builder.cli import run  # here, as Ctrl-C may come while modules load

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT_CODE


def _open_standard_streams() -> None:
    """Let what is closed (``>&-``) lead nowhere; else the next file opened would stand there."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    """End what other threads have started, and this one as Ctrl-C does."""
    if number == signal.SIGHUP:
        for descriptor in (1, 2):
            # A terminal that is gone is a device and no terminal: writing to it fails.
            with suppress(OSError):  # it may have been closed from the start
                if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
                    os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    interrupt_workers()
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    """Ask the kernel for a request to end when the program that started us, and says so, dies."""
    parent = os.environ.pop(PARENT, "")
    if parent != str(os.getppid()):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if parent != str(os.getppid()):  # it has died in between
        raise SystemExit(INTERRUPTED_EXIT_CODE)


if __name__ == "__main__":
    sys.exit(main())
