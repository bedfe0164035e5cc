"""The processes of a server, from lines of ``/proc/*/stat`` as a real one showed them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import cast

import pytest

from builder import process
from builder.engine.client import Container
from builder.errors import EngineError
from builder.smoke.processes import LOOK, Look, ProcessMonitor, look_into, read_look
from tests.unit.smoke.test_readiness import Clock

STAT = """1 (python) S 0 1 1 0 -1 4194560 138027 75 14 0 1256 138 0 0 20 0 10 0 2652852 20345 15
21 (VLLM::EngineCor) S 1 1 1 0 -1 4194560 174120 305 5 0 1149 172 0 0 20 0 15 0 2659813 266388 15
33 (VLLM::Worker) S 21 1 1 0 -1 4194560 445466 519 5 0 1294 461 0 0 20 0 46 0 2661446 353958 42
99 (a ) b (c) R 0 99 99 0 -1 4194560 1038 0 0 0 3 0 0 0 20 0 1 0 2684962 2654208 400
complete
"""


def a_monitor() -> tuple[ProcessMonitor, Clock]:
    clock = Clock()
    return ProcessMonitor(clock=clock), clock


def test_reads_names_states_and_seconds() -> None:
    api, core, worker, odd = read_look(STAT).processes
    assert (api.pid, api.name, api.seconds) == (1, "python", 13.94)
    assert (core.name, worker.name, odd.name) == ("VLLM::EngineCor", "VLLM::Worker", "a ) b (c")
    assert all(process.alive for process in (api, core, worker, odd))
    assert not read_look(STAT.replace("Worker) S", "Worker) Z")).processes[2].alive


def test_a_list_that_the_image_made_up_is_read_without_harm() -> None:
    """The programs that print it are the image's own."""
    long = "9" * 5000
    look = read_look(f"1 (a) S {' x' * 20}\n2 (b) S {f' {long}' * 20}\n{long} (c) S 1\n"
                     f"limit {long}\ncomplete\n")
    assert [(each.name, each.seconds) for each in look.processes] == [("a", 0), ("b", 0)]
    assert look.limit == 0


def test_a_worker_that_is_gone_is_missed_and_others_are_not() -> None:
    monitor, _ = a_monitor()
    assert monitor.update(read_look(STAT)) == ""
    without = "".join(line for line in STAT.splitlines(keepends=True) if "a ) b" not in line)
    assert monitor.update(read_look(without)) == ""
    gone = "".join(line for line in STAT.splitlines(keepends=True) if "Worker" not in line)
    assert monitor.update(read_look(gone)) == "VLLM::Worker"


def test_a_zombie_is_missed_too() -> None:
    monitor, _ = a_monitor()
    monitor.update(read_look(STAT))
    zombie = read_look(STAT.replace("EngineCor) S", "EngineCor) Z"))
    assert monitor.update(zombie) == "VLLM::EngineCor"


def test_a_container_that_cannot_be_asked_misses_nobody() -> None:
    monitor, _ = a_monitor()
    monitor.update(read_look(STAT))
    assert monitor.update(Look(())) == ""


def test_work_is_told_from_idling() -> None:
    monitor, clock = a_monitor()
    monitor.update(read_look(STAT))
    clock.now = 100
    monitor.update(read_look(STAT.replace("1294 461", "1344 461")))  # half a second in 100
    assert monitor.idle() == 100
    clock.now = 200
    monitor.update(read_look(STAT.replace("1294 461", "9344 461")))  # 80 seconds in 100
    assert monitor.idle() == 0


def test_a_list_that_was_cut_off_misses_nobody() -> None:
    monitor, _ = a_monitor()
    monitor.update(read_look(STAT))
    assert monitor.update(read_look(STAT[:STAT.index("33 (VLLM")])) == ""


@pytest.mark.parametrize(("memory", "starved"), [
    ("limit 150000000\nheld 140000000\n", True), ("limit 150000000\nheld 90000000\n", False),
    ("limit 9223372036854771712\nheld 140000000\n", False), ("limit max\nheld 9\n", False),
    ("", False)])
def test_a_memory_limit_that_is_used_up_is_told(memory: str, *, starved: bool) -> None:
    monitor, _ = a_monitor()
    monitor.update(read_look(STAT.replace("complete\n", f"{memory}complete\n")))
    assert monitor.starvation() == ("the container holds 140 MB of the 150 MB that it is limited "
                                    "to" if starved else "")


class Box:
    """A container that answers, or does not in time."""

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer

    def exec(self, command: Sequence[str], *, timeout: float | None = None) -> process.Result:
        assert timeout, "a container that starves may never answer"
        if isinstance(self.answer, Exception):
            raise self.answer
        return process.Result(tuple(command), 0, self.answer, "")


@pytest.mark.parametrize("error", [
    process.CommandError(process.Result(("docker",), 124, "", "no end")),
    EngineError("docker did not answer in 30 s")])
def test_a_container_that_does_not_answer_shows_nothing(error: Exception) -> None:
    assert look_into(cast(Container, Box(error))) == Look(())


def test_a_container_that_answers_shows_its_processes() -> None:
    assert len(look_into(cast(Container, Box(STAT))).processes) == 4


def test_the_script_runs_in_a_real_shell() -> None:
    """This machine is asked instead of a container: this process must be in the answer."""
    look = read_look(process.run(["sh", "-c", LOOK]).stdout)
    assert os.getpid() in {found.pid for found in look.processes}
