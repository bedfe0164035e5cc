"""Groups of processes: ended with all that they started, also those of a library and of a pool."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builder import process_group
from builder.process_group import admit, end_group, interrupt_workers, members, of_this_thread, tied

FAMILY = ["sh", "-c", "sleep 71 & sleep 72 & echo ready; wait"]
DEAF = ["sh", "-c", "trap '' TERM; sleep 71 & echo ready; while :; do sleep 72; done"]


@pytest.fixture
def start() -> Iterator[Callable[[list[str]], int]]:
    """Start a program in a group of its own, wait until it is ready, and kill what is left."""
    children: list[subprocess.Popen[bytes]] = []

    def begin(words: list[str]) -> int:
        child = subprocess.Popen(words, stdout=subprocess.PIPE, process_group=0)
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        return child.pid

    yield begin
    for child in children:
        process_group.kill_group(child.pid)
        child.communicate()


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an interruption be one of this test alone."""
    monkeypatch.setattr(process_group, "_interrupted", False)
    monkeypatch.setattr(process_group, "_told", set())


def in_a_pool(act: Callable[[], object]) -> list[BaseException]:
    """Run something as a pool's thread does; return what it raised."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    return raised


def test_a_group_ends_with_all_its_members(start: Callable[[list[str]], int]) -> None:
    group = start(FAMILY)
    assert len(members(group)) == 3
    end_group(group)
    assert members(group) == []


def test_what_does_not_hear_is_killed(start: Callable[[list[str]], int]) -> None:
    group = start(DEAF)
    end_group(group, grace=0.2)
    assert members(group) == []


def test_what_is_stopped_hears_it_too(start: Callable[[list[str]], int]) -> None:
    group = start(FAMILY)
    os.killpg(group, signal.SIGSTOP)
    end_group(group)
    assert members(group) == []


def test_a_second_interruption_kills_at_once(
        start: Callable[[list[str]], int], monkeypatch: pytest.MonkeyPatch) -> None:
    group = start(DEAF)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(process_group.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        end_group(group)
    monkeypatch.undo()
    end_group(group)
    assert members(group) == []


def test_a_group_that_is_gone_is_no_error() -> None:
    child = subprocess.Popen(["true"], process_group=0)
    child.wait()
    end_group(child.pid)


def test_a_librarys_command_works_as_if_it_stood_alone() -> None:
    with tied(60) as words:
        done = subprocess.run([*words, "sh", "-c", 'echo "$1"; exit 3', "-", "a b"],
                              capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (3, b"a b\n")


def test_a_librarys_command_ends_in_its_time() -> None:
    with tied(1) as words:
        assert subprocess.run([*words, "sleep", "60"], check=False).returncode == 124


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, GeneratorExit])
def test_a_librarys_command_does_not_outlive_the_block(error: type[BaseException]) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def work() -> None:
        with tied(60) as words:
            child = subprocess.Popen([*words, *FAMILY], stdout=subprocess.PIPE)
            started.append(child)
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            assert len(members(child.pid)) == 4
            raise error

    with pytest.raises(error):
        work()
    assert members(started[0].pid) == []
    started[0].communicate()


def test_a_command_that_has_not_begun_when_the_block_ends_never_does(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), tied(60) as words:
        raise KeyboardInterrupt
    done = subprocess.run([*words, "touch", str(tmp_path / "begun")], check=False,
                          capture_output=True)
    assert done.returncode != 0
    assert not (tmp_path / "begun").exists()


def test_a_librarys_command_ends_when_the_program_that_started_it_is_killed(
        tmp_path: Path) -> None:
    code = ("import subprocess, sys\nfrom builder.process_group import tied\n"
            "with tied(60) as words:\n"
            "    child = subprocess.Popen([*words, *sys.argv[1:]], stdout=subprocess.PIPE)\n"
            "    print(child.pid, child.stdout.readline().decode(), end='', flush=True)\n"
            "    child.wait()\n")
    with subprocess.Popen([sys.executable, "-c", code, *FAMILY], stdout=subprocess.PIPE,
                          env={**os.environ, "TMPDIR": str(tmp_path)}) as ours:
        assert ours.stdout is not None
        number, ready = ours.stdout.readline().split()
        assert ready == b"ready"
        ours.kill()
    group = int(number)
    gone = process_group._gone(group, 60)
    process_group.kill_group(group)
    assert gone, "also what the command has started"


@pytest.mark.usefixtures("own")
def test_an_interruption_ends_what_a_pools_thread_waits_for(
        start: Callable[[list[str]], int]) -> None:
    group = start(FAMILY)

    def wait() -> None:
        with of_this_thread(group):
            interrupt_workers()
            while members(group):
                time.sleep(0.02)
        admit()  # it is on its way out and cleans up

    assert in_a_pool(wait) == []


@pytest.mark.usefixtures("own")
def test_an_interruption_leaves_what_the_main_thread_and_daemons_have(
        start: Callable[[list[str]], int]) -> None:
    """The main thread ends its own; a daemon follows a log until its container is removed."""
    group = start(FAMILY)
    with of_this_thread(group):
        interrupt_workers()
    admit()
    thread = threading.Thread(target=lambda: of_this_thread(group).__enter__(), daemon=True)
    thread.start()
    thread.join()
    interrupt_workers()
    assert len(members(group)) == 3


@pytest.mark.usefixtures("own")
def test_a_thread_that_goes_on_after_an_interruption_starts_nothing_but_its_clean_up() -> None:
    interrupt_workers()
    allowed: list[str] = []

    def go_on() -> None:
        try:
            admit()
            allowed.append("work")
        finally:
            admit()
            allowed.append("clean up")

    (raised,) = in_a_pool(go_on)
    assert isinstance(raised, KeyboardInterrupt)
    assert allowed == ["clean up"]


@pytest.mark.usefixtures("own")
def test_an_interruption_between_the_admission_and_the_start_ends_it_as_well(
        start: Callable[[list[str]], int], monkeypatch: pytest.MonkeyPatch) -> None:
    group = start(FAMILY)
    monkeypatch.setattr(process_group, "_interrupted", True)

    def late() -> None:
        with of_this_thread(group):
            while members(group):
                time.sleep(0.02)

    assert in_a_pool(late) == []


@pytest.mark.usefixtures("own")
def test_an_interruption_ends_a_librarys_command_of_a_pools_thread() -> None:
    def work() -> None:
        with tied(60) as words, subprocess.Popen([*words, *FAMILY], stdout=subprocess.PIPE
                                                 ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            interrupt_workers()
            assert child.wait(30) != 0

    assert in_a_pool(work) == []


def test_members_of_no_group_are_none() -> None:
    assert members(2**30) == []
    assert os.getpid() in members(os.getpgid(0))
