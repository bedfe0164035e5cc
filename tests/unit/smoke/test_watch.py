"""A server watched: ready, dead in the worker, killed for memory, hung; and after it was ready."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from server_logs import HEALTHY

from builder import process
from builder.engine.client import Container, RunSpec
from builder.engine.container import ContainerState
from builder.record.check import Check, Status
from builder.smoke import watch as watching
from builder.smoke.client import Client
from builder.smoke.container_end import LifeEvents
from builder.smoke.log import Log
from builder.smoke.processes import ProcessMonitor
from builder.smoke.readiness import Boot
from builder.smoke.watch import Watch, still_healthy
from tests.unit.smoke.test_causes import TRACEBACK
from tests.unit.smoke.test_processes import STAT
from tests.unit.smoke.test_readiness import Clock

WITHOUT_WORKER = "".join(line for line in STAT.splitlines(keepends=True) if "Worker" not in line)


class Box:
    """A container as the engine would tell of it; ``stats`` are what /proc shows, look by look."""

    spec = RunSpec("r/cpu:cpu")

    def __init__(self, *stats: str, status: str = "running", code: int = 0,
                 memory: bool = False) -> None:
        self.stats = list(stats or (STAT,))
        self.told = ContainerState(status, code, memory, "")

    def state(self) -> ContainerState:
        return self.told

    def exec(self, command: list[str], *, timeout: float | None = None) -> process.Result:
        said = self.stats.pop(0) if len(self.stats) > 1 else self.stats[0]
        return process.Result(tuple(command), 0, said, "")


class Quiet:
    """The engine's events of a container that nobody stopped."""

    def raise_if_stopped(self) -> None:
        """Say nothing."""

    def await_death(self) -> None:
        """Wait for nothing."""


class Told:
    """A log whose lines are all there, or come one at a look."""

    def __init__(self, lines: list[str]) -> None:
        self.lines: list[str] = []
        self._coming = list(lines)

    def fresh(self, wait: float) -> Iterator[str]:
        while self._coming:
            self.lines.append(self._coming.pop(0))
            yield self.lines[-1]


class Api:
    """A client of whom only ``/health`` is asked."""

    def __init__(self, status: int = 200) -> None:
        self.status = status

    def health(self) -> int:
        return self.status

    def healthy(self) -> bool:
        return self.status == 200


def a_watch(box: Box, lines: list[str], **options: Any) -> Watch:
    return Watch(cast(Container, box), cast(LifeEvents, Quiet()), cast(Log, Told(lines)),
                 options.pop("boot", Boot()), **options)


def booted(box: Box, lines: list[str], **options: Any) -> Check:
    return a_watch(box, lines, **options).boot()


def after(box: Box, lines: list[str], status: int = 200) -> Check:
    watch = a_watch(box, [*HEALTHY, *lines])
    assert watch.boot().status is Status.PASS
    return still_healthy(watch, cast(Client, Api(status)))


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "COUNT_EVERY_S", -1.0)


def test_a_healthy_server_is_ready_and_healthy_afterwards() -> None:
    assert booted(Box(), HEALTHY).status is Status.PASS
    assert after(Box(), []).detail == "/health answers 200"


def test_a_dead_engine_comes_with_the_first_error() -> None:
    found = booted(Box(), TRACEBACK)
    assert found.status is Status.FAIL
    assert found.detail.startswith("the engine died: ")
    assert "first error: KeyError: 'layers.0'" in found.detail
    assert found.detail.endswith('in phase "start"')


def test_a_killed_worker_behind_a_live_api_is_missed_before_the_log_tells() -> None:
    resolved = "INFO Resolved architecture: Gemma4ForConditionalGeneration"
    found = booted(Box(STAT, WITHOUT_WORKER), [resolved])
    assert "its process VLLM::Worker is gone, though the API still listens" in found.detail
    assert 'in phase "resolve"' in found.detail


@pytest.mark.parametrize(("box", "lines", "said"), [
    (Box(status="exited", code=137, memory=True), [], "status 137 (out of memory)"),
    (Box(status="exited", code=137), [], "(out of memory: it was killed, as the kernel does"),
    (Box(status="exited", code=1), ["torch.OutOfMemoryError: CUDA out of memory. Tried"],
     "(out of memory: the GPU's memory ran out)"),
    (Box(status="exited", code=137, memory=True), ["Memory cgroup out of memory: Killed process 1"],
     "status 137 (out of memory: the kernel killed it)"),
    (Box(status="exited", code=1), ["ValueError: No available memory for the cache blocks."],
     "(out of memory: no memory is left for the KV cache)")])
def test_memory_that_runs_out_has_a_name(box: Box, lines: list[str], said: str) -> None:
    assert said in booted(box, lines).detail


def test_another_end_is_not_called_one_of_memory() -> None:
    found = booted(Box(status="exited", code=1), ["ValueError: no such flag"])
    assert found.detail == 'the server ended with status 1 in phase "start"'


def test_a_hang_is_told_from_slow_work() -> None:
    clock = Clock()
    boot = Boot(clock=clock)
    watch = a_watch(Box(), ["INFO Dynamo bytecode transform time: 9 s"], boot=boot,
                    monitor=ProcessMonitor(clock=clock))
    boot.line("INFO Dynamo bytecode transform time: 9 s")
    watch.count(now=True)
    clock.now = 200
    assert watch._boot_ended() == ""
    clock.now = 400
    assert 'phase "compile", and for 400 s nothing has used the processor' in watch._boot_ended()


def test_a_hang_at_the_memory_limit_is_named_as_a_lack_of_memory() -> None:
    clock = Clock()
    boot = Boot(clock=clock)
    starved = STAT.replace("complete", "limit 150000000\nheld 149000000\ncomplete")
    watch = a_watch(Box(starved), [], boot=boot, monitor=ProcessMonitor(clock=clock))
    watch.count(now=True)
    clock.now = 400
    assert watch._boot_ended().endswith(
        "(out of memory: the container holds 149 MB of the 150 MB that it is limited to)")


def test_a_silent_boot_that_works_is_slow_and_no_hang() -> None:
    clock = Clock()
    boot = Boot(clock=clock)
    busy = STAT.replace("1294 461", "91294 461")
    watch = a_watch(Box(STAT, busy), [], boot=boot, monitor=ProcessMonitor(clock=clock))
    boot.line("INFO Dynamo bytecode transform time: 9 s")
    watch.count(now=True)
    clock.now = 400
    assert watch._boot_ended() == ""


@pytest.mark.parametrize(("box", "lines", "status", "said"), [
    (Box(STAT, WITHOUT_WORKER), [], 200, "VLLM::Worker is gone, though the API still listens"),
    (Box(), ["ERROR Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down"],
     503, "(out of memory: a process was killed, as the kernel does where memory runs out)"),
    (Box(), ["x EngineDeadError: EngineCore encountered an issue."], 503, "the engine died: x"),
    (Box(), [], 503, "/health answers 503: the engine no longer answers"),
    (Box(), [], 0, "/health no longer answers 200"),
    (Box(status="exited"), ["WARNING MPClient: engine core exited unexpectedly; starting cleanup"],
     0, "starting cleanup; the server ended with status 0")])
def test_a_death_after_readiness_is_named(box: Box, lines: list[str], status: int,
                                          said: str) -> None:
    box.told, later = ContainerState("running", 0, False, ""), box.told
    watch = a_watch(box, HEALTHY)
    assert watch.boot().status is Status.PASS
    box.told = later
    watch.log._coming.extend(lines)  # type: ignore[attr-defined]
    list(watch.log.fresh(0))
    found = still_healthy(watch, cast(Client, Api(status)))
    assert found.status is Status.FAIL
    assert said in found.detail
