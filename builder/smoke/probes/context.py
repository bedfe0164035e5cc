"""Prompts as long as the context, and longer: what the server says it holds, it must hold."""

from __future__ import annotations

from typing import Any

from builder.smoke.client import TIMEOUT_S, Client
from builder.smoke.probes.cases import FilledCase, Filling, OverfullCase, body
from builder.smoke.probes.judge import judge
from builder.smoke.probes.outcome import ProbeResult, answer_text

FEW, MANY = 10, 40  # sentences by which a sentence's tokens are measured
OFF = 0.05  # of the context: how far the measured share may lie from the wanted one
SLOWEST = 100.0  # tokens of prompt a second: slower than any Spark prefills


def filled(client: Client, case: FilledCase) -> ProbeResult:
    """Fill the context up to a share, ask, and judge the answer and the count of tokens."""
    length = client.context_length()
    count = int(sentences(client, case, length * case.fill.share))
    got = client.chat(padded(client, case, count), timeout=TIMEOUT_S + length / SLOWEST)
    tokens = got["usage"]["prompt_tokens"]
    if abs(tokens / length - case.fill.share) > OFF:
        return ProbeResult(answer_text(got),
                           f"usage counts {tokens} tokens of prompt, of {length} that fit")
    return ProbeResult(f"{answer_text(got)} ({tokens} of {length} tokens)", judge(case, got))


def overfull(client: Client, case: OverfullCase) -> ProbeResult:
    """Send more than fits: a 4xx, and the server is healthy after."""
    length = client.context_length()
    count = int(sentences(client, case, length * case.fill.share))
    status = client.status(padded(client, case, count))
    if not 400 <= status < 500:
        return ProbeResult(str(status),
                           f"status {status}, not 4xx, for more than {length} tokens")
    return ProbeResult(str(status), client.unhealthy())


def sentences(client: Client, case: Filling, tokens: float) -> float:
    """Return how many sentences make so many tokens, as the server counts them."""
    few, many = (_tokens(client, case, count) for count in (FEW, MANY))
    each = (many - few) / (MANY - FEW)
    if each <= 0:
        raise ValueError(f"{MANY} sentences count {many} tokens, {FEW} count {few}")
    return FEW + (tokens - few) / each


def padded(client: Client, case: Filling, count: int) -> dict[str, Any]:
    """Return the request with so many sentences before the last question."""
    asked = body(case, client.model)
    *before, last = asked["messages"]
    text = f"{case.fill.text(count)}\n\n{last['content']}"
    return {**asked, "messages": [*before, {**last, "content": text}]}


def _tokens(client: Client, case: Filling, count: int) -> int:
    got = client.chat({**padded(client, case, count), "max_tokens": 1})
    return int(got["usage"]["prompt_tokens"])
