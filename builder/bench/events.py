"""Which samples of llama-benchy can be trusted, by what its progress events say of each request.

llama-benchy counts only the tokens of chunks that carry text. A token without text (a control
token that a parser of the server withholds, half a character) is neither counted nor timed, and an
answer without any text is left out silently, so that a reported 20 tok/s may really have been 70.
Every request therefore asks for exactly ``tg`` tokens, and a run counts only where they were seen.
Where client or server were kept waiting, an answer arrives in a few pieces: timed from the first to
the last of them it may seem a hundred times as fast as it was, or have no speed at all.
The events: https://github.com/eugr/llama-benchy, ``docs/progress-schema.md``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from builder.record.bench import GridPoint

ARRIVALS = "requests_throughput_over_time"  # a moment and a rate for each token of each request
HIDDEN = 0.03  # fraction of the tokens that may stay unseen; one token always may


PIECES = 4  # in which an answer has to arrive at least, for its decode speed to mean something
Arrivals = Mapping[GridPoint, Sequence[Sequence[float]]]


@dataclass(frozen=True)
class Request:
    """One request: its run, and how many tokens and chunks with text were seen of its answer.

    They arrived at so many different ``moments``, and ``later`` tokens after the first of them.
    """

    run: int
    tokens: int
    chunks: int
    moments: int
    later: int

    @property
    def answered(self) -> bool:
        """Say whether llama-benchy has a time to its first token."""
        return self.chunks > 0

    @property
    def timed(self) -> bool:
        """Say whether llama-benchy has a decode speed of it."""
        return self.moments > 1 and self.tokens > 1

    @property
    def steady(self) -> bool:
        """Say whether that speed is one: half of the tokens came later, in some pieces."""
        pieces = min(self.chunks, self.moments)
        return pieces >= min(PIECES, self.tokens) and 2 * self.later >= self.tokens - 1

    def complete(self, asked: int) -> bool:
        """Say whether all requested tokens were seen, but for the few that may be hidden."""
        seen = min(self.chunks, self.tokens) > 1
        return seen and self.tokens >= asked - max(1.0, HIDDEN * asked)


def take_arrivals(raw: Mapping[str, Any]) -> Arrivals:
    """Take out of llama-benchy's JSON when each token arrived: for each point, request by request.

    They are far more than all the rest, and nothing in a record needs them. Raises KeyError,
    TypeError, ValueError or AttributeError for another JSON.
    """
    found: dict[GridPoint, list[list[float]]] = {}
    for entry in raw["benchmarks"]:
        batches = entry.get(ARRIVALS) or ()
        if ARRIVALS in entry:
            entry[ARRIVALS] = None
        if not entry.get("is_context_prefill_phase"):
            point = GridPoint(pp=entry["prompt_size"], tg=entry["response_size"],
                              depth=entry["context_size"], concurrency=entry["concurrency"])
            found[point] = [[at for at, _ in tokens] for batch in batches for tokens in batch]
    return found


def requests(lines: Iterable[str], arrivals: Arrivals | None = None
             ) -> Mapping[GridPoint, tuple[Request, ...]]:
    """Read the events: the finished requests of each point, in the order of llama-benchy's values.

    Where ``arrivals`` does not have every request of a point, each chunk counts as a moment.
    Warm-up rounds have no events. Raises ValueError, KeyError or TypeError for other lines.
    """
    started: dict[int, dict[str, int]] = {}
    chunks: dict[int, int] = defaultdict(int)
    tokens: dict[int, int] = {}
    for line in lines:
        event = json.loads(line)
        if event["type"] == "request_start":
            started[event["request_id"]] = event
        elif event["type"] == "tokens":
            chunks[event["request_id"]] += 1
        elif event["type"] == "request_end":
            tokens[event["request_id"]] = event["total_tokens"]
    numbers: dict[GridPoint, list[int]] = defaultdict(list)
    for number, event in sorted(started.items()):
        numbers[GridPoint(pp=event["prompt_size"], tg=event["response_size"],
                          depth=event["context_size"], concurrency=event["concurrency"])
                ].append(number)
    return {point: tuple(
        Request(started[number]["run_index"], tokens[number], chunks[number],
                *_later(at, tokens[number], chunks[number]))
        for number, at in zip(those, _of(those, (arrivals or {}).get(point, ())), strict=True))
        for point, those in numbers.items()}


def _of(numbers: Sequence[int], arrived: Sequence[Sequence[float]]
        ) -> Sequence[Sequence[float] | None]:
    return arrived if len(arrived) == len(numbers) else [None] * len(numbers)


def _later(at: Sequence[float] | None, tokens: int, chunks: int) -> tuple[int, int]:
    """Return the moments of one answer and the tokens after the first."""
    if at is None:
        return chunks, tokens - 1 if chunks > 1 else 0
    return len(set(at)), sum(one > at[0] for one in at)
