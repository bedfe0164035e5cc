"""What comes of a probe, and how several of its questions are asked at the same moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class ProbeResult:
    """The answer as text, what is wrong with it or nothing, and whether no answer came in time."""

    answer: str
    problem: str = ""
    timed_out: bool = False


def answer_text(response: dict[str, Any]) -> str:
    """Return the message of a chat response as text: its content, or its tool calls."""
    message = response["choices"][0]["message"]
    return message.get("content") or json.dumps(message.get("tool_calls") or "",
                                                ensure_ascii=False)


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
