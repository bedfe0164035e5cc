"""A compiler of bytecode that runs this machine's own Python: for tests without a container."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager

from builder import process
from builder.layers.bytecode import PipedCompiler


@contextmanager
def compiler_here(python: str, interpreter: str) -> Iterator[PipedCompiler]:
    """Give a compiler that runs ``interpreter`` of this machine, which must be ``python``."""
    def start(command: Sequence[str]) -> AbstractContextManager[subprocess.Popen[bytes]]:
        return process.stream(command, stdin=subprocess.PIPE, stderr=None)
    with closing(PipedCompiler(python, start, interpreter)) as compiler:
        yield compiler
