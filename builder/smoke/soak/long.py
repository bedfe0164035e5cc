"""Long answers, judged part by part: where one begins to decay, that is said."""

from __future__ import annotations

from typing import Any

from builder.recipes.models import Capabilities
from builder.smoke.client import Client
from builder.smoke.probes.cases import AnswerCase, battery, body
from builder.smoke.probes.judge import judge
from builder.smoke.probes.outcome import ProbeResult, answer_text
from builder.smoke.soak.judges import decayed, differs
from builder.smoke.soak.rules import rules

ESSAY = ("Write a complete handbook of sailing for beginners: one hundred numbered sections, each "
         "with a heading and three paragraphs. Do not stop before section 100.")
AFTERWARDS = AnswerCase(kind="answer", name="a fact after a long answer", contains=("Paris",),
                        messages=({"role": "user", "content": "What is the capital of France?"},))
ENDS = ("stop", "length")


class LongAnswers:
    """Asks for one long answer after the other.

    A model that only says what it was trained to say gives its longest answer, always the same one;
    any other writes as much as the limit or its context allows, and is asked a fact afterwards.
    """

    def __init__(self, able: Capabilities) -> None:
        """Begin without a known answer."""
        self._general, self._known = able.general, ""

    def ask(self, client: Client) -> ProbeResult:
        """Ask for one; raises Unanswered."""
        return essay(client) if self._general else self._by_heart(client)

    def _by_heart(self, client: Client) -> ProbeResult:
        case = longest()
        got = client.assembled(body(case, client.model))
        text, tokens = answer_text(got), int(got["usage"]["completion_tokens"])
        wrong = decayed(text, tokens) or judge(case, got) or (
            differs(text, self._known, tokens) if self._known else "")
        self._known = self._known or ("" if wrong else text)
        return ProbeResult(f"{tokens} tokens", wrong)


def longest() -> AnswerCase:
    """Return the streamed case of the battery whose answer only the embedded model knows."""
    return max((case for case in battery().cases if isinstance(case, AnswerCase)
                and case.stream and case.needs == "text" and not case.general),
               key=lambda case: case.max_tokens)


def essay(client: Client) -> ProbeResult:
    """Ask for a text as long as it may be, and then for a fact in the same conversation."""
    limits = rules().long
    room = client.context_length() - int(limits.room.value)
    asked = client.request(ESSAY, max_tokens=max(1, min(int(limits.tokens.value), room)))
    got = client.assembled(asked)
    text, tokens = answer_text(got), int(got["usage"]["completion_tokens"])
    end = got["choices"][0]["finish_reason"]
    wrong = decayed(text, tokens) or (
        "" if end in ENDS else f"it ended with {end!r} after {tokens} tokens")
    return ProbeResult(f"{tokens} tokens", wrong or _afterwards(client, asked, text, tokens))


def _afterwards(client: Client, asked: dict[str, Any], text: str, tokens: int) -> str:
    last = body(AFTERWARDS, client.model)
    turns = [*asked["messages"], {"role": "assistant", "content": text}, *last["messages"]]
    wrong = judge(AFTERWARDS, client.chat({**last, "messages": turns}))
    return wrong and f"asked a fact after {tokens} tokens of answer: {wrong}"
