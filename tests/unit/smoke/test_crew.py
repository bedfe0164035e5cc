"""The processes of a server, from lines of ``/proc/*/stat`` as a real one showed them."""

from __future__ import annotations

from builder.smoke.crew import Crew, processes
from tests.unit.smoke.test_readiness import Clock

STAT = """1 (python) S 0 1 1 0 -1 4194560 138027 75 14 0 1256 138 0 0 20 0 10 0 2652852 20345 15
21 (VLLM::EngineCor) S 1 1 1 0 -1 4194560 174120 305 5 0 1149 172 0 0 20 0 15 0 2659813 266388 15
33 (VLLM::Worker) S 21 1 1 0 -1 4194560 445466 519 5 0 1294 461 0 0 20 0 46 0 2661446 353958 42
99 (a ) b (c) R 0 99 99 0 -1 4194560 1038 0 0 0 3 0 0 0 20 0 1 0 2684962 2654208 400
"""


def a_crew() -> tuple[Crew, Clock]:
    clock = Clock()
    return Crew(clock=clock), clock


def test_reads_names_states_and_seconds() -> None:
    api, core, worker, odd = processes(STAT)
    assert (api.pid, api.name, api.seconds) == (1, "python", 13.94)
    assert (core.name, worker.name, odd.name) == ("VLLM::EngineCor", "VLLM::Worker", "a ) b (c")
    assert all(one.alive for one in (api, core, worker, odd))
    assert not processes(STAT.replace("Worker) S", "Worker) Z"))[2].alive


def test_a_worker_that_is_gone_is_missed_and_others_are_not() -> None:
    crew, _ = a_crew()
    assert crew.look(processes(STAT)) == ""
    without = "".join(line for line in STAT.splitlines(keepends=True) if "a ) b" not in line)
    assert crew.look(processes(without)) == ""
    gone = "".join(line for line in STAT.splitlines(keepends=True) if "Worker" not in line)
    assert crew.look(processes(gone)) == "VLLM::Worker"


def test_a_zombie_is_missed_too() -> None:
    crew, _ = a_crew()
    crew.look(processes(STAT))
    assert crew.look(processes(STAT.replace("EngineCor) S", "EngineCor) Z"))) == "VLLM::EngineCor"


def test_a_container_that_cannot_be_asked_misses_nobody() -> None:
    crew, _ = a_crew()
    crew.look(processes(STAT))
    assert crew.look(()) == ""


def test_work_is_told_from_idling() -> None:
    crew, clock = a_crew()
    crew.look(processes(STAT))
    clock.now = 100
    crew.look(processes(STAT.replace("1294 461", "1344 461")))  # half a second in 100
    assert crew.idle() == 100
    clock.now = 200
    crew.look(processes(STAT.replace("1294 461", "9344 461")))  # 80 seconds in 100
    assert crew.idle() == 0
