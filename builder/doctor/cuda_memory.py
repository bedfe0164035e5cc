"""What CUDA itself says it can get: ``python cuda_memory.py`` prints bytes free and in all.

A program of its own, with nothing but Python: a driver that hangs takes only this with it. It asks
the first GPU in its primary context, which ends with the program; nothing stays on the host.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref, c_int, c_size_t, c_void_p

LIBRARY = "libcuda.so.1"


class NoAnswerError(Exception):
    """CUDA is not here, or refuses a question."""


def memory() -> tuple[int, int]:
    """Return the bytes that are free and all bytes; raise NoAnswerError where CUDA gives none."""
    try:
        cuda = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise NoAnswerError(str(error)) from error
    device, context, free, total = c_int(), c_void_p(), c_size_t(), c_size_t()
    _ask(cuda, "cuInit", 0)
    _ask(cuda, "cuDeviceGet", byref(device), 0)
    _ask(cuda, "cuDevicePrimaryCtxRetain", byref(context), device)
    try:
        _ask(cuda, "cuCtxSetCurrent", context)
        _ask(cuda, "cuMemGetInfo_v2", byref(free), byref(total))
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(device)
    return free.value, total.value


def _ask(cuda: ctypes.CDLL, name: str, *arguments: object) -> None:
    status = cuda[name](*arguments)
    if status:
        raise NoAnswerError(f"{name} answers {status}")


def main() -> int:
    """Print both figures, or say on the error stream why there are none."""
    try:
        free, total = memory()
    except NoAnswerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{free} {total}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
