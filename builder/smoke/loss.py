"""One node is killed: it has to be missed by name within seconds, and nothing may go on running."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from builder.engine.client import Container
from builder.record.check import Check, OnCheck, Status
from builder.smoke.client import Client, Unanswered
from builder.smoke.node_watch import NodesWatch
from builder.smoke.probes.cases import battery, plain
from builder.smoke.processes import OURS, look_into

WITHIN_S = 15.0  # in which the loss is named and all nodes have ended
LONG = "text: long answer, streamed"
CUT = "the answer is cut off"


def lose_a_node(watch: NodesWatch, client: Client, on_check: OnCheck, *, idle: bool = False
                ) -> None:
    """Kill the engine's processes of node 1, in the middle of an answer or while nobody asks."""
    pieces = iter(()) if idle else client.another().events(_long(client))
    try:
        next(pieces, None)
    except Unanswered as error:
        on_check(_check(CUT, f"the answer did not begin: {error}"))
        return
    killed = kill_engine(watch.guard.followers[0].box)
    started = time.monotonic()
    within = WITHIN_S * client.patience
    lost = watch.guard.await_loss(within)
    seconds = time.monotonic() - started
    wrong = "" if lost else f"killed on node 1: {killed}; nobody noticed"
    on_check(_check(f"a node is lost {'while idle' if idle else 'in the middle of an answer'}",
                    wrong, f"named after {seconds:.1f} s: {lost}", seconds))
    if not idle:
        on_check(_cut_off(pieces))
    on_check(_stopped(watch, started, within))


def kill_engine(box: Container) -> str:
    """Kill the engine's processes in a container as the kernel would; return their names.

    By the shell's own ``kill``: slim images have no other.
    """
    found = [process for process in look_into(box).processes
             if process.alive and process.name.startswith(OURS)]
    words = " ".join(str(process.pid) for process in found)
    if not found or box.exec(["sh", "-c", f"kill -9 {words}"]).returncode:
        return "no process"
    return ", ".join(process.name for process in found)


def _long(client: Client) -> dict[str, Any]:
    """Return the request of the battery with the longest answer."""
    case = next(case for case in battery().cases if case.name == LONG)
    return plain(case, client.model)


def _cut_off(pieces: Iterator[dict[str, Any]]) -> Check:
    """Read what is left of the answer: it has to end, and not as whole answers do.

    A head that notices sends an error in the place of the rest, and ends the stream properly.
    """
    count, end = 0, "the stream ended"
    try:
        for piece in pieces:
            count += 1
            if any(choice.get("finish_reason") for choice in piece.get("choices", [])):
                return _check(CUT, "the whole answer came: the node was not lost in its middle")
            end = str(piece["error"])[:300] if "error" in piece else end
    except Unanswered as error:
        end = str(error)
    return _check(CUT, "", f"after {count} more pieces: {end}")


def _stopped(watch: NodesWatch, started: float, within: float) -> Check:
    """Wait until no node runs any more, so many seconds from the loss on."""
    running = [number for number, _ in enumerate(watch.guard.boxes())]
    while running and time.monotonic() - started < within:
        running = [number for number, box in enumerate(watch.guard.boxes())
                   if box.state().running]
        time.sleep(0.2)
    seconds = time.monotonic() - started
    wrong = ", ".join(f"node {number}" for number in running)
    return _check("all nodes are stopped", wrong and f"still running: {wrong}",
                  f"{seconds:.1f} s after the loss", seconds)


def _check(name: str, wrong: str, detail: str = "", seconds: float = 0.0) -> Check:
    return Check(check=name, status=Status.FAIL if wrong else Status.PASS,
                 detail=wrong or detail, seconds=seconds)
