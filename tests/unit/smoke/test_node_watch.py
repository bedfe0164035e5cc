"""Nodes watched: a follower that is gone is named while nobody asks, and all nodes are stopped."""

from __future__ import annotations

from typing import Any, cast

import pytest
from server_logs import HEALTHY

from builder.engine.client import Container
from builder.errors import EngineError
from builder.smoke import node_watch
from builder.smoke import watch as watching
from builder.smoke.client import Client
from builder.smoke.node_watch import Guard, NodesWatch
from builder.smoke.readiness import Boot
from builder.smoke.watch import Watch
from tests.unit.smoke.test_processes import STAT
from tests.unit.smoke.test_watch import WITHOUT_WORKER, Api, Box, Quiet, Told, a_watch


class Node(Box):
    """A container that can be stopped."""

    def __init__(self, *stats: str, **how: Any) -> None:
        super().__init__(*stats, **how)
        self.grace: int | None = None

    def stop(self, grace: int) -> None:
        self.grace = grace


class Stopped(Quiet):
    """The engine's events of a container that somebody stopped."""

    def raise_if_stopped(self) -> None:
        raise EngineError("the container was stopped from outside", where="r/cpu:cpu")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_watch, "EVERY_S", 0.01)
    monkeypatch.setattr(watching, "COUNT_EVERY_S", -1.0)


def follower(*stats: str, **how: Any) -> Watch:
    """Return a follower of which the first look was taken."""
    watch = a_watch(cast(Any, Node(STAT, *stats, **how)), [])
    watch.count(now=True)
    return watch


def a_guard(one: Watch) -> tuple[Guard, Node]:
    head = Node()
    return Guard(cast(Container, head), [one]), head


def head_watch(guard: Guard, *lines: str, box: Node | None = None) -> NodesWatch:
    return NodesWatch(cast(Container, box or guard.head), cast(Any, Quiet()),
                      cast(Any, Told([*lines])), Boot(), guard=guard)


def test_nodes_that_live_are_left_alone() -> None:
    guard, head = a_guard(follower())
    with guard:
        assert guard.await_loss(0.2) == ""
    assert guard.look() == ""
    assert head.grace is None


def test_a_lost_follower_is_named_and_all_nodes_are_stopped() -> None:
    one = follower(WITHOUT_WORKER)
    guard, head = a_guard(one)
    with guard:
        lost = guard.await_loss(10)
    assert lost.startswith("node 1, a follower: the engine died: its process VLLM::Worker is gone")
    assert head.grace == cast(Node, one.box).grace == node_watch.GRACE_S
    assert guard.boxes() == (head, one.box)


def test_a_follower_that_ended_is_named_with_its_status() -> None:
    guard, _ = a_guard(follower(status="exited", code=1))
    assert guard.look() == "node 1, a follower: the server ended with status 1"


def test_one_that_was_stopped_from_outside_is_an_error_that_names_the_node() -> None:
    one = follower(status="exited", code=137)
    one.events = cast(Any, Stopped())
    guard, head = a_guard(one)
    with guard, pytest.raises(EngineError, match="stopped from outside") as caught:
        guard.await_loss(10)
    assert caught.value.where == "node 1 of r/cpu:cpu"
    with pytest.raises(EngineError):
        guard.look()
    assert head.grace is not None


def test_a_head_without_trouble_asks_nobody() -> None:
    guard, _ = a_guard(follower())
    watch = head_watch(guard, *HEALTHY)
    assert watch.boot().status.value == "pass"
    assert watch.gone(cast(Client, Api())) == ""


def test_trouble_of_the_head_names_the_follower_first() -> None:
    """The first question after a loss gets a 500 before the guard has looked again."""
    guard, _ = a_guard(follower(WITHOUT_WORKER))
    told = head_watch(guard).gone(cast(Client, Api(500)))
    assert told.startswith("node 1, a follower: ")
    assert "; node 0, the head: /health answers 500" in told


def test_a_head_that_dies_alone_is_named() -> None:
    guard, _ = a_guard(follower())
    assert head_watch(guard).gone(cast(Client, Api(503))).startswith("node 0, the head: /health")


def test_a_loss_that_the_guard_knows_needs_no_question() -> None:
    guard, _ = a_guard(follower(WITHOUT_WORKER))
    guard.look()
    assert head_watch(guard).gone(cast(Client, Api())).startswith("node 1, a follower: ")


def test_a_follower_lost_in_the_boot_ends_it() -> None:
    guard, _ = a_guard(follower(WITHOUT_WORKER))
    guard.look()
    check = head_watch(guard).boot()
    assert check.status.value == "fail"
    assert check.detail.startswith("node 1, a follower: ")
    assert check.detail.endswith('in phase "start"')


def test_a_head_that_the_guard_stopped_meanwhile_is_no_error() -> None:
    guard, _ = a_guard(follower(WITHOUT_WORKER))
    watch = head_watch(guard, box=Node(status="exited", code=137))
    watch.events = cast(Any, Stopped())
    assert watch.gone(cast(Client, Api())).startswith("node 1, a follower: ")
    other, _ = a_guard(follower())
    alone = head_watch(other, box=Node(status="exited", code=137))
    alone.events = cast(Any, Stopped())
    with pytest.raises(EngineError):
        alone.gone(cast(Client, Api()))
