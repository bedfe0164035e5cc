"""Whether a run is alive, in a fake /proc and the real one: no clock that can be set is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from builder.record.alive import BOOT, is_running, this_process

BOOTED = 1_767_225_600  # 2026-01-01T00:00:00Z
DAY_S = 86_400


def machine(proc: Path, *, pid: int = os.getpid(), ticks: int = 359_000, state: str = "S",
            boot: str = "7f2c", booted: int = BOOTED) -> Path:
    """Lay out a /proc with one process; ``booted`` moves with the clock of the machine."""
    (proc / BOOT).parent.mkdir(parents=True, exist_ok=True)
    (proc / BOOT).write_text(f"{boot}\n")
    (proc / "stat").write_text(f"cpu 1 2\nbtime {booted}\n")
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(
        f"{pid} (a ) b) {state} {' '.join(['0'] * 18)} {ticks} 0\n")
    return proc


@pytest.mark.parametrize("step", [-DAY_S, DAY_S], ids=["a day back", "a day forth"])
def test_a_clock_that_steps_during_a_run_does_not_end_it(tmp_path: Path, step: int) -> None:
    name = this_process(machine(tmp_path))
    assert name
    assert is_running(name, machine(tmp_path, booted=BOOTED + step))


def test_another_process_of_its_number_is_not_the_run(tmp_path: Path) -> None:
    name = this_process(machine(tmp_path))
    assert not is_running(name, machine(tmp_path, ticks=400_000))


def test_a_process_with_its_start_and_another_number_is_not_the_run(tmp_path: Path) -> None:
    name = this_process(machine(tmp_path / "a"))
    assert not is_running(name, machine(tmp_path / "b", pid=os.getpid() + 1))


def test_a_machine_that_was_started_anew_has_no_run_of_before(tmp_path: Path) -> None:
    name = this_process(machine(tmp_path))
    assert not is_running(name, machine(tmp_path, boot="91aa"))


def test_a_process_that_was_killed_and_not_yet_collected_is_gone(tmp_path: Path) -> None:
    name = this_process(machine(tmp_path))
    assert not is_running(name, machine(tmp_path, state="Z"))


def test_a_record_without_a_name_is_of_no_process(tmp_path: Path) -> None:
    assert not is_running("", machine(tmp_path))


def test_where_the_system_does_not_tell_a_run_is_believed(tmp_path: Path) -> None:
    assert this_process(tmp_path / "none") == ""
    assert is_running("", tmp_path / "none")


def test_a_real_process_is_seen_while_it_lives() -> None:
    if not this_process():
        pytest.skip("there is no /proc here")
    code = ("import time; from builder.record.alive import this_process; "
            "print(this_process(), flush=True); time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        assert name != this_process()
        assert is_running(name)
        child.kill()
        child.wait()
        assert not is_running(name)
