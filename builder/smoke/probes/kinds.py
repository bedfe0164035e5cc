"""How each kind of case is asked, and judged."""

from __future__ import annotations

import math
from typing import Any, assert_never

from builder.smoke.client import Client
from builder.smoke.probes.cases import (
    SHORT,
    AnswerCase,
    CancelledCase,
    Case,
    CountedCase,
    FilledCase,
    LogprobsCase,
    LoopCase,
    OverfullCase,
    RefusedCase,
    SurvivedCase,
    TogetherCase,
    TwiceCase,
    battery,
    body,
)
from builder.smoke.probes.context import filled, overfull
from builder.smoke.probes.counters import cancelled, counted
from builder.smoke.probes.judge import judge
from builder.smoke.probes.outcome import ProbeResult, answer_text, at_once


def probe(client: Client, case: Case) -> ProbeResult:  # noqa: C901 - one branch a kind
    """Ask a case in the way of its kind; raises Unanswered."""
    match case:
        case AnswerCase():
            return answer(client, case)
        case TwiceCase():
            return twice(client, case)
        case LoopCase():
            return loop(client, case)
        case TogetherCase():
            return together(client, case)
        case LogprobsCase():
            return logprobs(client, case)
        case RefusedCase():
            return refused(client, case)
        case SurvivedCase():
            return survived(client, case)
        case CancelledCase():
            return cancelled(client, case)
        case FilledCase():
            return filled(client, case)
        case OverfullCase():
            return overfull(client, case)
        case CountedCase():
            return counted(client, case)
        case _:
            assert_never(case)


def answer(client: Client, case: AnswerCase) -> ProbeResult:
    """Ask once, whole or as a stream."""
    request = body(case, client.model)
    response = client.assembled(request) if case.stream else client.chat(request)
    return ProbeResult(answer_text(response), judge(case, response))


def twice(client: Client, case: TwiceCase) -> ProbeResult:
    """Ask again, whole, as a stream and beside ``times`` others: all must be the same."""
    request = body(case, client.model)
    first = client.chat(request)
    others = [client.chat(request), client.assembled(request)]
    others += at_once(lambda _: client.another().chat(request), range(case.times))
    for other in others:
        if answer_text(other) != answer_text(first):
            return ProbeResult(answer_text(first),
                               f"at temperature 0 another answer is {answer_text(other)!r}")
    return ProbeResult(answer_text(first), judge(case, first))


def loop(client: Client, case: LoopCase) -> ProbeResult:
    """Play the agent: return each turn's tool results until the model answers in words."""
    messages, expected = list(case.messages), list(case.calls)
    last = AnswerCase(kind="answer", **case.model_dump(exclude={"kind", "calls", "results"}))
    for results in case.results:
        turn = last.model_copy(update={"messages": tuple(messages), "contains": (),
                                       "calls": tuple(expected[:len(results)])})
        response = client.chat(body(turn, client.model))
        if wrong := judge(turn, response):
            return ProbeResult(answer_text(response), f"in turn {len(messages)}: {wrong}")
        messages += _turn(response["choices"][0]["message"], results)
        expected = expected[len(results):]
    return answer(client, last.model_copy(update={"messages": tuple(messages)}))


def _turn(message: dict[str, Any], results: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the messages of one turn: the model's calls and what each of them returned."""
    return [{"role": "assistant", "content": message.get("content"),
             "tool_calls": message["tool_calls"]},
            *({"role": "tool", "tool_call_id": call["id"], "content": result}
              for call, result in zip(message["tool_calls"], results, strict=True))]


def together(client: Client, case: TogetherCase) -> ProbeResult:
    """Ask ``times`` plain questions at once: every answer must be right."""
    facts = [other for other in battery().cases if isinstance(other, AnswerCase)
             and other.needs == "text" and other.max_tokens <= SHORT]
    asked = [facts[number % len(facts)] for number in range(case.times)]
    results = at_once(lambda fact: answer(client.another(), fact), asked)
    wrong = [f"{fact.name}: {result.problem}"
             for fact, result in zip(asked, results, strict=True) if result.problem]
    return ProbeResult(f"{len(results) - len(wrong)} of {len(results)} right", "; ".join(wrong))


def logprobs(client: Client, case: LogprobsCase) -> ProbeResult:
    """Ask for log probabilities: each is a number and not above zero."""
    response = client.chat(body(case, client.model))
    numbers = [top["logprob"] for token in response["choices"][0]["logprobs"]["content"]
               for top in (token, *token["top_logprobs"])]
    bad = [number for number in numbers if number is None or not -math.inf < number <= 0.0]
    return ProbeResult(answer_text(response),
                       f"log probabilities {bad[:3]}" if bad else judge(case, response))


def refused(client: Client, case: RefusedCase) -> ProbeResult:
    """Send what is no request: a 4xx, and the server is healthy after."""
    status = client.status(body(case, client.model))
    wrong = "" if 400 <= status < 500 else f"status {status}, not 4xx"
    return ProbeResult(str(status), wrong or client.unhealthy())


def survived(client: Client, case: SurvivedCase) -> ProbeResult:
    """Send what may be too much: an answer or a 4xx, and the server is healthy after."""
    status = client.status(body(case, client.model))
    wrong = "" if status == 200 or 400 <= status < 500 else f"status {status}"
    return ProbeResult(str(status), wrong or client.unhealthy())
