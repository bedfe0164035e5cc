"""Several questions at the same moment, and an interruption that does not wait for the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def at_once(ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Ask for all items together and return the answers in their order; raises the first failure.

    All answers are waited for, so that no question runs beside the next probe. On Ctrl-C none is:
    a server that is stuck would hold the program for minutes; when its container is removed, the
    questions end by themselves.
    """
    pool, wait = ThreadPoolExecutor(len(items)), True
    try:
        return list(pool.map(ask, items))
    except KeyboardInterrupt:
        wait = False
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=not wait)
