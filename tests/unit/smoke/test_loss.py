"""The loss of a node: noticed or not, with the answer cut off or not, all stopped or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from builder.engine.container import ContainerState
from builder.process import Result
from builder.record.check import Check
from builder.smoke import loss
from builder.smoke.client import Client, Unanswered
from builder.smoke.loss import kill_engine, lose_a_node
from builder.smoke.node_watch import NodesWatch
from tests.unit.smoke.test_node_watch import Node, a_guard, follower, head_watch
from tests.unit.smoke.test_processes import STAT
from tests.unit.smoke.test_watch import WITHOUT_WORKER


class Doomed(Node):
    """A container whose worker is gone once it was killed, and that ends when it is stopped."""

    refuses = False

    def __init__(self, *, stops: bool = True) -> None:
        super().__init__()
        self.stops, self.killed = stops, list[str]()

    def exec(self, command: list[str], *, timeout: float | None = None) -> Any:
        if command[-1].startswith("kill"):
            if self.refuses:
                return Result(tuple(command), 127, "", "kill: not found")
            self.killed, self.stats = command, [WITHOUT_WORKER]
        return super().exec(command, timeout=timeout)

    def stop(self, grace: int) -> None:
        if self.stops:
            self.told = ContainerState("exited", 0, False, "")


class Streaming:
    """A client whose stream goes on as it is told."""

    model = "tiny"
    patience = 1.0

    def __init__(self, *ends: Any) -> None:
        self.ends = ends

    def another(self) -> Streaming:
        return self

    def events(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        assert body["messages"][0]["content"] == "Tell me a long story."
        for end in self.ends:
            if isinstance(end, Exception):
                raise end
            yield end


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "WITHIN_S", 1.0)
    monkeypatch.setattr("builder.smoke.node_watch.EVERY_S", 0.01)


def lost(client: Streaming, *, idle: bool = False, stops: bool = True, guarded: bool = True
         ) -> dict[str, Check]:
    one = follower()
    one.box = cast(Any, Doomed())
    guard, _ = a_guard(one)
    guard.head = cast(Any, Doomed(stops=stops))
    watch: NodesWatch = head_watch(guard)
    told: list[Check] = []

    def act() -> None:
        lose_a_node(watch, cast(Client, client), told.append, idle=idle)

    if guarded:
        with guard:
            act()
    else:
        act()
    return {check.check: check for check in told}


CUT_OFF = Streaming({}, {}, Unanswered("the stream broke"))


def test_a_loss_in_the_middle_of_an_answer_is_named_and_all_stops() -> None:
    checks = lost(CUT_OFF)
    assert [check.status.value for check in checks.values()] == ["pass"] * 3
    assert "node 1, a follower" in checks["a node is lost in the middle of an answer"].detail
    assert checks[loss.CUT].detail == "after 1 more pieces: the stream broke"


def test_an_error_in_the_place_of_the_rest_cuts_an_answer_off() -> None:
    detail = lost(Streaming({}, {"error": {"message": "EngineCore"}}))[loss.CUT].detail
    assert detail == "after 1 more pieces: {'message': 'EngineCore'}"


def test_a_loss_while_idle_asks_nothing() -> None:
    checks = lost(Streaming(AssertionError()), idle=True)
    assert {name: check.status.value for name, check in checks.items()} == {
        "a node is lost while idle": "pass", "all nodes are stopped": "pass"}


def test_a_loss_that_nobody_notices_is_red() -> None:
    checks = lost(CUT_OFF, guarded=False)
    failed = {name: check.detail for name, check in checks.items() if check.status.value == "fail"}
    assert "nobody noticed" in failed["a node is lost in the middle of an answer"]
    assert failed["all nodes are stopped"] == "still running: node 0, node 1"


def test_a_whole_answer_and_a_node_that_runs_on_are_red() -> None:
    whole = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    checks = lost(Streaming({}, {"choices": [{"delta": {}}]}, whole), stops=False)
    assert checks[loss.CUT].status.value == "fail"
    assert checks["all nodes are stopped"].detail == "still running: node 0"


def test_an_answer_that_does_not_begin_is_told() -> None:
    checks = lost(Streaming(Unanswered("status 500")))
    assert [check.detail for check in checks.values()] == ["the answer did not begin: status 500"]


def test_only_the_engines_processes_are_killed() -> None:
    box = Doomed()
    assert kill_engine(cast(Any, box)) == "VLLM::EngineCor, VLLM::Worker"
    assert box.killed == ["sh", "-c", "kill -9 21 33"]
    box.refuses = True
    assert kill_engine(cast(Any, box)) == "no process"
    idle = Node(STAT.replace("VLLM", "other"))
    assert kill_engine(cast(Any, idle)) == "no process"
