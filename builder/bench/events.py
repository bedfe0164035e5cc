"""Which samples of llama-benchy can be trusted, by what its progress events say of each request.

llama-benchy counts only the tokens of chunks that carry text. A token without text (a control
token that a parser of the server withholds, half a character) is neither counted nor timed, and an
answer without any text is left out silently, so that a reported 20 tok/s may really have been 70.
Every request therefore asks for exactly ``tg`` tokens, and a run counts only where they were seen.
The events: https://github.com/eugr/llama-benchy, ``docs/progress-schema.md``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from builder.record.bench import GridPoint

HIDDEN = 0.03  # fraction of the tokens that may stay unseen; one token always may


@dataclass(frozen=True)
class Request:
    """One request: its run, and how many tokens and chunks with text were seen of its answer."""

    run: int
    tokens: int
    chunks: int

    @property
    def answered(self) -> bool:
        """Say whether llama-benchy has a time to its first token."""
        return self.chunks > 0

    @property
    def timed(self) -> bool:
        """Say whether llama-benchy has a decode speed of it."""
        return self.chunks > 1 and self.tokens > 1

    def complete(self, asked: int) -> bool:
        """Say whether all requested tokens were seen, but for the few that may be hidden."""
        return self.timed and self.tokens >= asked - max(1.0, HIDDEN * asked)


def requests(lines: Iterable[str]) -> Mapping[GridPoint, tuple[Request, ...]]:
    """Read the events: the finished requests of each point, in the order of llama-benchy's values.

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
    finished: dict[GridPoint, list[Request]] = defaultdict(list)
    for number, event in sorted(started.items()):
        point = GridPoint(pp=event["prompt_size"], tg=event["response_size"],
                          depth=event["context_size"], concurrency=event["concurrency"])
        finished[point].append(Request(event["run_index"], tokens[number], chunks[number]))
    return {point: tuple(each) for point, each in finished.items()}
