"""Every limit on what is read from outside, in bytes and seconds, and the readers that hold it.

A file that a user names, an answer of a server and the output of a program may be endless, or
come one byte at a time. Each is read through this module or with a limit that stands here.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from builder.errors import UsageError

T = TypeVar("T")
MB = 1_000_000
CONFIG_BYTES = 4 * MB  # matrix, recipe, base recipe: hand-written; the largest here has 8 kB
LOCK_BYTES = 16 * MB  # 200 wheels are 45 kB
RECORD_BYTES = 16 * MB  # a level 2 record with all answers has 0.3 MB
PATCH_BYTES = 32 * MB  # the largest diff of the field has 2 MB
ENGINE_ASK_S = 180.0  # a question to the Docker engine: under 5 s, once over 60 s under load
ENGINE_PLAN_S = 10.0  # the same for a plan, which somebody waits for
ENGINE_REGISTRY_S = 120.0  # a question that the engine passes on to a registry
ENGINE_CHANGE_S = 300.0  # create, start or remove a container; tag or remove an image
ENGINE_EXEC_S = 3600.0  # a program in a container, where its caller knows no better
ENGINE_SILENCE_S = 3600.0  # no line of a push, pull or build: 3 GB at 7 Mbit/s is one such line
ENGINE_EXPORT_SILENCE_S = 120.0  # no byte of a file system that the engine streams
ENGINE_TRANSFER_S = 6 * 3600.0  # push, pull, build, copy or export, to the end
HOSTING_S = 600.0  # one answer of a hosting service; a diff of 32 MB at 0.5 Mbit/s
BENCH_TEXT_BYTES = 64 * MB  # prompts are cut from it; a long book has 6 MB
BENCH_RESULT_BYTES = 256 * MB  # of llama-benchy: 30 bytes for each token that it timed
LOG_BYTES = 64 * MB  # a longer log is read at both ends
PAGE_BYTES = 32 * MB  # one page of a package index; the largest seen has 12 MB
ANSWER_BYTES = 16 * MB  # one answer of a model server, streamed or whole
# JSON takes up to 24 times its bytes in memory ("{}," is 3 bytes and a dict of 64 in a list).
ENGINE_ANSWER_BYTES = 16 * MB  # one answer of the engine in JSON; 500 images are 0.5 MB
OUTPUT_BYTES = 64 * MB  # what a program prints that we run; the longest, a bake, has under 1 MB
MODULE_BYTES = 4 * MB  # one Python module in a wheel; the largest of vLLM has 0.4 MB
SOURCES_BYTES = 256 * MB  # all Python modules of a wheel; those of vLLM 0.32 have 39 MB
LINE_BYTES = 1 * MB  # one line of a program or a server that is read line by line
BYTECODE_BYTES = 64 * MB  # of one module; the largest seen has 3 MB
SETTINGS_BYTES = 1 * MB  # a small file of our own in the cache: stamp, key, ledger, marker
REGISTRY_BYTES = 4 * MB  # one answer of a registry; the specification's limit of a manifest
REGISTRY_S = 300.0  # of silence of a registry, which may hash gigabytes before it answers
REGISTRY_UPLOAD_S = 3600.0  # one piece of an upload and its answer: 64 MB at 0.15 Mbit/s
APT_S = 600.0  # one run of apt: the lists of a suite, or the answer from them
DEB_S = 1800.0  # one Debian package; the largest here has 20 MB
SNAPSHOT_DEB_S = 600.0  # the same from a snapshot service: 20 MB at 35 kB/s
WEIGHT_HEADER_BYTES = 16 * MB  # the header of a file of weights; those of 31B models have 0.2 MB
HUB_FILE_BYTES = 32 * MB  # one answer of a model hub; the longest index of weights has 10 MB
COMMIT_BYTES = 4_000 * MB  # a commit's files, and git's pack of them; vLLM 0.20.2 has 78 and 34 MB
COMMIT_FILES = 500_000  # files and folders of one commit; vLLM 0.20.2 has 4,746 files
COMMIT_S = 900.0  # one commit with its files; vLLM's takes under a minute
FACTS_BYTES = 32 * MB  # the facts of a base, unpacked; those of the slim ones have 1.7 MB
SSH_S = 60.0  # a login by ssh and its tunnel, until it is open
PROGRAM_S = 60.0  # a small program on this machine that only answers; most take under 1 s
SCRIPT_S = 7200.0  # any other program, and a script in an image: minutes when it is emulated
STREAM_S = 1800.0  # one streamed answer: 12,000 tokens at 7 a second
EMULATED = 10.0  # times as long as on its own processor a server may take for anything, emulated
PAGE_S = 120.0  # one page or one small answer, from the first byte asked to the last received


def read_file(path: Path, limit: int, what: str) -> bytes:
    """Return the contents of a regular file of at most ``limit`` bytes.

    ``what`` names the file to the user ("record", "recipe"). Raises UsageError for a folder, a
    device, a pipe and a larger file; FileNotFoundError and other OSErrors are the caller's.
    """
    try:  # a pipe cannot hang
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise _no_file(path, what) from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _no_file(path, what)
        with os.fdopen(descriptor, "rb", closefd=False) as handle:
            data = handle.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise UsageError(f"this {what} is larger than {limit // MB} MB", where=str(path),
                         next_step=f"check that it really is a {what}")
    return data


def patience(*, emulated: bool) -> float:
    """Return by how much every limit on a server is multiplied: its boot, its answers, its load.

    The one place that says it; a limit on the engine or on a whole script is not of this kind.
    """
    return EMULATED if emulated else 1.0


def _no_file(path: Path, what: str) -> UsageError:
    return UsageError(f"a {what} must be a regular file", where=str(path),
                      next_step="name a file, not a folder, device or pipe")


class TooMuchError(Exception):
    """What is read from outside went beyond its bytes or seconds; the message says which."""


def bounded(chunks: Iterator[bytes], limit: int, seconds: float = PAGE_S) -> Iterator[bytes]:
    """Pass ``chunks`` on; raises TooMuchError past ``limit`` bytes in all or ``seconds``."""
    total, end = 0, time.monotonic() + seconds
    for chunk in chunks:
        total += len(chunk)
        if total > limit:
            raise TooMuchError(f"more than {limit / MB:.0f} MB")
        if time.monotonic() > end:
            raise TooMuchError(f"not complete after {seconds:.0f} s")
        yield chunk


def within(seconds: float, call: Callable[[], T],
           discard: Callable[[T], object] = lambda _: None) -> T:
    """Return what ``call`` returns or raises; raises TooMuchError where it takes longer.

    For calls whose own time limit starts again with each byte that arrives. ``call`` runs in a
    thread that is abandoned when its time is over, so what it reads must be limited in bytes; what
    comes too late is handed to ``discard``.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    late = threading.Event()

    def work() -> None:
        try:
            results.append(call())
            if late.is_set():
                discard(results[0])
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        late.set()
        raise TooMuchError(f"not complete after {seconds:.0f} s")
    return results[0]
