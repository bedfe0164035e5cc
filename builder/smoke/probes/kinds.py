"""How each kind of case is asked; every function returns the answer and what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Callable

from builder.smoke.client import Client
from builder.smoke.probes.at_once import at_once
from builder.smoke.probes.cases import SHORT, Case, Kind, battery, body
from builder.smoke.probes.context import filled, overfull
from builder.smoke.probes.counters import cancelled, counted
from builder.smoke.probes.judge import judge
from builder.smoke.probes.said import Asked, said


def answer(client: Client, case: Case) -> Asked:
    """Ask once, whole or as a stream."""
    asked = body(case, client.model)
    got = client.assembled(asked) if case.stream else client.chat(asked)
    return said(got), judge(case, got)


def twice(client: Client, case: Case) -> Asked:
    """Ask again, whole, as a stream and beside ``times`` others: all must be the same."""
    asked = body(case, client.model)
    first = client.chat(asked)
    others = [client.chat(asked), client.assembled(asked)]
    others += at_once(lambda _: Client(client.port, client.model).chat(asked), range(case.times))
    for other in others:
        if said(other) != said(first):
            return said(first), f"at temperature 0 another answer is {said(other)!r}"
    return said(first), judge(case, first)


def loop(client: Client, case: Case) -> Asked:
    """Play the agent: return each turn's tool results until the model answers in words."""
    messages, wanted = list(case.messages), list(case.calls)
    for results in case.results:
        turn = case.model_copy(update={"messages": tuple(messages), "contains": (),
                                       "calls": tuple(wanted[:len(results)])})
        got = client.chat(body(turn, client.model))
        if wrong := judge(turn, got):
            return said(got), f"in turn {len(messages)}: {wrong}"
        message = got["choices"][0]["message"]
        messages.append({"role": "assistant", "content": message.get("content"),
                         "tool_calls": message["tool_calls"]})
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": result}
                     for call, result in zip(message["tool_calls"], results, strict=True)]
        wanted = wanted[len(results):]
    return answer(client, case.model_copy(update={"messages": tuple(messages), "calls": ()}))


def together(client: Client, case: Case) -> Asked:
    """Ask ``times`` plain questions at once: every answer must be right."""
    facts = [other for other in battery().cases if other.kind == "answer"
             and other.needs == "text" and other.max_tokens <= SHORT]
    asked = [facts[number % len(facts)] for number in range(case.times)]
    found = at_once(lambda one: answer(Client(client.port, client.model), one), asked)
    wrong = [f"{one.name}: {bad}" for one, (_, bad) in zip(asked, found, strict=True) if bad]
    return f"{len(found) - len(wrong)} of {len(found)} right", "; ".join(wrong)


def logprobs(client: Client, case: Case) -> Asked:
    """Ask for log probabilities: each is a number and not above zero."""
    got = client.chat(body(case, client.model))
    numbers = [top["logprob"] for token in got["choices"][0]["logprobs"]["content"]
               for top in (token, *token["top_logprobs"])]
    bad = [number for number in numbers if number is None or not -math.inf < number <= 0.0]
    return said(got), f"log probabilities {bad[:3]}" if bad else judge(case, got)


def refused(client: Client, case: Case) -> Asked:
    """Send what is no request: a 4xx, and the server is healthy after."""
    status = client.status(body(case, client.model))
    wrong = "" if 400 <= status < 500 else f"status {status}, not 4xx"
    return str(status), wrong or ("" if client.healthy() else "/health no longer answers 200")


def survived(client: Client, case: Case) -> Asked:
    """Send what may be too much: an answer or a 4xx, and the server is healthy after."""
    status = client.status(body(case, client.model))
    wrong = "" if status == 200 or 400 <= status < 500 else f"status {status}"
    return str(status), wrong or ("" if client.healthy() else "/health no longer answers 200")


KINDS: dict[Kind, Callable[[Client, Case], Asked]] = {
    "answer": answer, "twice": twice, "loop": loop, "together": together, "logprobs": logprobs,
    "refused": refused, "cancelled": cancelled, "survived": survived, "filled": filled,
    "overfull": overfull, "counted": counted}
