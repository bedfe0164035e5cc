"""Does a server answer rightly? A short battery before it counts as ready, one question later.

``/health`` proves little: it was seen to stay 200 over a dead engine until somebody asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from builder.errors import SparkyardError
from builder.recipes.models import Capabilities
from builder.record.check import Check, Status
from builder.serve.api_key import read_key
from builder.serve.servers import Server
from builder.smoke.client import Client, Unanswered
from builder.smoke.probes.cases import AnswerCase, battery, body
from builder.smoke.probes.judge import judge
from builder.smoke.probes.run import run

# Of the battery of the smoke test: one question of each kind, seconds for a real model.
SHORT = ("text: capital of France", "text: streamed", "tools: single", "reasoning: asked",
         "vision: drawn scene")
QUESTION = SHORT[0]
STATUS_S = 10.0  # a server that is busy with others takes longer, which is not wrong


def client_of(server: Server, patience: float = 1.0) -> Client:
    """Return a client; raises UsageError where the key's file can no longer be read."""
    key = read_key(server.key_file) if server.key_file else ""
    return Client(server.port, server.model, host=server.reached_at, key=key,
                  patience=patience)


def short_battery(client: Client, able: Capabilities) -> Iterator[Check]:
    """Ask one question for each thing that the model can do; yield each check as it comes."""
    for case in battery().cases:
        if case.name in SHORT and not case.inapplicable(able):
            yield run(client, case)


def answers(server: Server, make: Callable[[Server], Client] = client_of) -> tuple[str, bool]:
    """Return what a running server does when it is asked, and whether that is right."""
    try:
        client = make(server)
    except SparkyardError as error:
        return f"not asked: {error.what}", False
    health = client.health()
    if health != 200:
        return (f"/health answers {health}" if health else "nobody listens yet"), False
    case = next(case for case in battery().cases if case.name == QUESTION)
    assert isinstance(case, AnswerCase)
    try:
        answer = client.chat(body(case, client.model), timeout=STATUS_S)
        wrong = judge(case, answer)
    except Unanswered as error:
        return (f"busy: no answer within {STATUS_S:.0f} s" if error.timed_out
                else f"wrong: {error}"), error.timed_out
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError, OverflowError):
        return "wrong: the answer has another shape than the API's", False
    return (f"wrong: {wrong}", False) if wrong else ("answers", True)


def failed(checks: list[Check]) -> str:
    """Return what the first failed check says; nothing where none failed."""
    return next((f"{check.check}: {check.detail}" for check in checks
                 if check.status is Status.FAIL), "")
