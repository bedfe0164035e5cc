"""The server's own counters: they move by what was asked, and fall back when nothing runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from builder.smoke.client import Client
from builder.smoke.probes.cases import CancelledCase, CountedCase, body
from builder.smoke.probes.outcome import ProbeResult, at_once

FREE_WITHIN_S = 15.0
LOOK_EVERY_S = 0.2
SUCCESS, PROMPT = "vllm:request_success_total", "vllm:prompt_tokens_total"
GENERATED = "vllm:generation_tokens_total"
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
USAGE = "vllm:kv_cache_usage_perc"
IDLE = {RUNNING: 0.0, WAITING: 0.0, USAGE: 0.01}  # the most that an idle server shows


def cancelled(client: Client, case: CancelledCase) -> ProbeResult:
    """Leave a stream after its first piece: the server is idle soon after."""
    before = client.metric(PROMPT)
    client.abandon(body(case, client.model))
    within = FREE_WITHIN_S * client.patience
    if busy := settled(lambda: not_idle(client), within):
        return ProbeResult("", f"{busy}, {within:.0f} s after the stream was left")
    if client.metric(PROMPT) <= before:
        return ProbeResult("", f"{PROMPT} did not move")
    return ProbeResult("the slot is free")


def counted(client: Client, case: CountedCase) -> ProbeResult:
    """Ask ``times`` at once: the counters move by exactly what the answers say of themselves."""
    within = FREE_WITHIN_S * client.patience
    if busy := settled(lambda: not_idle(client), within):
        return ProbeResult("", f"{busy}, before anything was asked")
    before = {name: client.metric(name) for name in (SUCCESS, PROMPT, GENERATED)}
    got = at_once(lambda _: client.another().chat(body(case, client.model)),
                  range(case.times))
    used = [answer["usage"] for answer in got]
    moved = {SUCCESS: case.times, PROMPT: sum(usage["prompt_tokens"] for usage in used),
             GENERATED: sum(usage["completion_tokens"] for usage in used)}
    wrong = settled(lambda: "; ".join(
        f"{name} moved by {now - before[name]:g} and not by {moved[name]}" for name in moved
        if (now := client.metric(name)) - before[name] != moved[name]), within)
    wrong = wrong or settled(lambda: not_idle(client), within)
    return ProbeResult(", ".join(f"{name.removeprefix('vllm:')} +{by}"
                                 for name, by in moved.items()), wrong)


def not_idle(client: Client) -> str:
    """Return which gauges are not those of an idle server."""
    now = {name: client.metric(name) for name in IDLE}
    return ", ".join(f"{name} is {value:g}" for name, value in now.items() if value > IDLE[name])


def settled(look: Callable[[], str], within: float) -> str:
    """Look until nothing is wrong any more; return what still is when the time is over."""
    end = time.monotonic() + within
    while (wrong := look()) and time.monotonic() < end:
        time.sleep(LOOK_EVERY_S)
    return wrong
