"""What a served model is asked: plain chat, the same as a stream, the same answer twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import requests

from builder.smoke.client import Client, Unanswered
from builder.smoke.levels import EXPECT, QUESTION
from builder.smoke.verdict import Check, Status

Probe = Callable[[Client, dict[str, Any]], tuple[str, str]]


def plain(client: Client, body: dict[str, Any]) -> tuple[str, str]:
    """Return the answer and what is wrong with it: its text, its end, its counts."""
    answer = client.chat(body)
    choice, usage = answer["choices"][0], answer["usage"]
    text = choice["message"]["content"] or ""
    if choice["finish_reason"] != "stop":
        return text, f"it ended with {choice['finish_reason']!r}, not 'stop'"
    if not 0 < usage["completion_tokens"] <= body["max_tokens"]:
        return text, f"usage counts {usage['completion_tokens']} tokens"
    return text, ""


def streamed(client: Client, body: dict[str, Any]) -> tuple[str, str]:
    """Return the streamed text; wrong if it came in one piece or differs from the plain answer."""
    text, chunks = client.stream(body)
    whole = client.chat(body)["choices"][0]["message"]["content"] or ""
    if text != whole:
        return text, f"without streaming the answer is {whole!r}"
    return text, "" if chunks > 1 else f"the stream had {chunks} chunk(s)"


def twice(client: Client, body: dict[str, Any]) -> tuple[str, str]:
    """Return the answer; wrong if asking again at temperature 0 gives another."""
    first, second = (client.chat(body)["choices"][0]["message"]["content"] or ""
                     for _ in range(2))
    return first, "" if first == second else f"the second answer is {second!r}"


PROBES: tuple[tuple[str, Probe], ...] = (
    ("plain chat", plain), ("streaming", streamed), ("same answer twice", twice))


def ask(client: Client) -> list[Check]:
    """Run every probe; each answer must hold the fact that was asked for."""
    return [_run(name, probe, client) for name, probe in PROBES]


def _run(name: str, probe: Probe, client: Client) -> Check:
    body, started = client.request(QUESTION), time.monotonic()
    text = ""
    try:
        text, wrong = probe(client, body)
    except (Unanswered, requests.RequestException, KeyError, IndexError, TypeError,
            ValueError) as error:
        wrong = f"{type(error).__name__}: {error}"
    if not wrong and EXPECT not in text:
        wrong = f"expected {EXPECT!r} in the answer"
    return Check(check=name, status=Status.FAIL if wrong else Status.PASS,
                 detail=f"{text!r}" + (f"; {wrong}" if wrong else ""),
                 seconds=time.monotonic() - started, request=json.dumps(body), answer=text)
