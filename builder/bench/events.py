"""Which samples of llama-benchy can be trusted: what its progress events say of every request.

Its speeds count the tokens of the pieces of a stream that carry text. A token without text (a
control token that a parser of the server keeps back, half a character) is neither counted nor
timed, an answer without any text is left out in silence, and a speed of 20 tok/s may really have
been 70. So every request is asked for exactly ``tg`` tokens, and a run counts only where they were
seen. The events: https://github.com/eugr/llama-benchy, ``docs/progress-schema.md``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from builder.record.bench import Cell

HIDDEN = 0.03  # part of the tokens that may stay unseen, and one token always may


@dataclass(frozen=True)
class Request:
    """One request: its run, the tokens and the pieces with text that were seen of its answer."""

    run: int
    tokens: int
    pieces: int

    @property
    def answered(self) -> bool:
        """Say whether llama-benchy has a time to its first token."""
        return self.pieces > 0

    @property
    def timed(self) -> bool:
        """Say whether llama-benchy has a decode speed of it."""
        return self.pieces > 1 and self.tokens > 1

    def whole(self, asked: int) -> bool:
        """Say whether (nearly) all tokens asked for were seen."""
        return self.timed and self.tokens >= asked - max(1.0, HIDDEN * asked)


def requests(lines: Iterable[str]) -> Mapping[Cell, tuple[Request, ...]]:
    """Read the events: the finished requests of each cell, in the order of llama-benchy's values.

    Warm-up rounds have no events. Raises ValueError or KeyError for what are no such events.
    """
    started: dict[int, dict[str, int]] = {}
    pieces: dict[int, int] = defaultdict(int)
    tokens: dict[int, int] = {}
    for line in lines:
        event = json.loads(line)
        if event["type"] == "request_start":
            started[event["request_id"]] = event
        elif event["type"] == "tokens":
            pieces[event["request_id"]] += 1
        elif event["type"] == "request_end":
            tokens[event["request_id"]] = event["total_tokens"]
    found: dict[Cell, list[Request]] = defaultdict(list)
    for number, event in sorted(started.items()):
        cell = Cell(pp=event["prompt_size"], tg=event["response_size"],
                    depth=event["context_size"], concurrency=event["concurrency"])
        found[cell].append(Request(event["run_index"], tokens[number], pieces[number]))
    return {cell: tuple(each) for cell, each in found.items()}
