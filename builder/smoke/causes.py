"""Why a server died, read from its log: where memory ran out, and which error came first.

The patterns are the words of vLLM (0.19 to 0.32), PyTorch, glibc and the Linux kernel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from builder.model import Frozen

ESTIMATE = re.compile(r"estimated maximum model length is (\d[\d,]{0,15})")
SPARE = 0.95  # vLLM's estimate is the edge: a server there boots one time and not the next
# The last line of a traceback, with or without the prefix of vLLM's logger.
ERROR = re.compile(r"^(?:.*ERROR .*?\] )?((?:\w+\.)*\w*(?:Error|Exception|SystemExit): .+)")
ECHO = re.compile(r"EngineDeadError|Engine core initialization failed|WorkerProc initialization "
                  r"failed|Executor failed")  # from processes that only report it


class Shortage(Frozen):
    """A way to run out of memory, and the line by which it is known."""

    name: str
    pattern: str


SHORTAGES = (
    Shortage(name="the KV cache does not hold a request of full length",
             pattern=r"estimated maximum model length|larger than the (available KV cache memory|"
                     r"maximum number of tokens)"),
    Shortage(name="no memory is left for the KV cache",
             pattern=r"No available memory for the cache blocks"),
    Shortage(name="less memory is free than the utilization asks for",
             pattern=r"less than desired (GPU|CPU) memory utilization"),
    Shortage(name="the GPU's memory ran out",
             pattern=r"OutOfMemoryError|CUDA out of memory|CUDA error: out of memory"),
    Shortage(name="the kernel killed it",
             pattern=r"Out of memory: Killed process|Memory cgroup out of memory|oom-kill:"),
    Shortage(name="the host's memory ran out",
             pattern=r"\bMemoryError\b|std::bad_alloc|(?:can't|Cannot) allocate memory"),
    Shortage(name="a process was killed, as the kernel does where memory runs out",
             pattern=r"^Killed$|exit code: -9\)|died with exit code -9|signal SIGKILL"),
)


def shortage(lines: Sequence[str]) -> str:
    """Return how memory ran out, with what to ask for instead where vLLM says it; or nothing."""
    for known in SHORTAGES:
        if any(re.search(known.pattern, line) for line in lines):
            return known.name + advice(lines)
    return ""


def advice(lines: Sequence[str]) -> str:
    """Return the context length to ask for: vLLM's estimate less five per cent."""
    estimate = next(filter(None, map(ESTIMATE.search, lines)), None)
    if estimate is None:
        return ""
    length = int(int(estimate[1].replace(",", "")) * SPARE)
    return f"; --max-model-len {length} would fit"


def first_error(lines: Sequence[str]) -> str:
    """Return the error that the first traceback ends in, and not its echo in other processes."""
    begun = False
    for line in lines:
        begun = begun or "Traceback (most recent call last)" in line
        error = ERROR.search(line) if begun else None
        if error and not ECHO.search(error[1]):
            return error[1].strip()
    return ""
