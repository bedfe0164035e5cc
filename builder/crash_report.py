"""An unforeseen fault becomes one clear error and a file with the details; never a traceback."""

from __future__ import annotations

import errno
import os
import platform
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from builder.cache_folder import is_claimed, named_folder
from builder.errors import DiskError, EngineError, InternalError, SparkyardError, UsageError
from builder.text import redact, visible

NO_FILE = "report it with this line and what you ran; no file with the details could be written"
ISSUES = "look through them, since they show your command and paths, and report them with this line"


def as_error(fault: BaseException, arguments: Sequence[str]) -> SparkyardError:
    """Return what the user is told of ``fault``, which no stage has turned into an error of ours.

    What the operating system refused, and input that nests too deeply, are explained; everything
    else is a fault of Sparkyard, whose details go into a file.
    """
    match fault:
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return DiskError("the disk is full", where=_place(fault),
                             next_step="free some disk, then run the same command again")
        case OSError(filename=str() | bytes() | os.PathLike()):
            return UsageError(f"this file cannot be used: {fault.strerror}", where=_place(fault),
                              next_step="check that it exists and that you may read and write it")
        case MemoryError():
            return EngineError("this machine has not enough free memory", where="",
                               next_step="end other programs, then run the same command again")
        case RecursionError():
            return UsageError("the input is nested too deeply to be read",
                              where=_command(arguments),
                              next_step=_details(fault, arguments, "look for a file with thousands "
                                                 "of brackets inside each other"))
    return InternalError(f"internal error: {type(fault).__name__} ({_first_line(fault)})",
                         where=_command(arguments), next_step=_details(fault, arguments, ISSUES))


def write_report(fault: BaseException, arguments: Sequence[str]) -> Path | None:
    """Write the traceback, versions and the command, without secrets, and return the file.

    It lies in ``logs`` of the cache folder where there is one, else among temporary files; None
    where neither can be written.
    """
    text = visible(redact(_report(fault, arguments)))
    name = f"internal-error-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-"
    cache = named_folder()
    for folder in ([cache / "logs"] if is_claimed(cache) else []) + [Path(tempfile.gettempdir())]:
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
            descriptor, path = tempfile.mkstemp(prefix=name, suffix=".txt", dir=folder, text=True)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
            return Path(path)
    return None


def _report(fault: BaseException, arguments: Sequence[str]) -> str:
    trace = "".join(traceback.format_exception(fault, limit=-50))
    return (f"command: {_command(arguments)}\n"
            f"sparkyard {_version('sparkyard')}, Python {sys.version.split()[0]}, "
            f"{platform.system()} {platform.release()} {platform.machine()}\n"
            f"time: {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())}\n\n{trace}")


def _details(fault: BaseException, arguments: Sequence[str], advice: str) -> str:
    path = write_report(fault, arguments)
    return f"the details are in {path}; {advice}" if path else NO_FILE


def _command(arguments: Sequence[str]) -> str:
    return f"sparkyard {shlex.join(arguments)}"


def _first_line(fault: BaseException) -> str:
    return next(iter(str(fault).splitlines()), "no message")[:200]


def _place(fault: BaseException) -> str:
    name = getattr(fault, "filename", None)
    return os.fsdecode(name) if name is not None else ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of a checkout"
