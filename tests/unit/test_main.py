"""The program itself: its exit codes, requests to end, and terminals of another encoding."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import pytest

from builder.process import run
from builder.process_group import members

ROOT = Path(__file__).parents[2]
SLOW = """
import time
import builder.commands.plan as plan
def slow(options):
    print("ready", flush=True)
    time.sleep(60)
plan.execute = slow
from builder.__main__ import main
import sys
sys.exit(main())
"""


def test_a_request_to_end_is_an_interruption_and_no_traceback() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with subprocess.Popen([sys.executable, "-c", SLOW, "plan"], cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            child.send_signal(number)
            _, errors = child.communicate()
        assert child.returncode == 130
        assert errors == "warning: interrupted; run the same command again to go on\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_lead_nowhere(closed: str, tmp_path: Path) -> None:
    """Else the next file that is opened stands in their place, and a print goes into it."""
    env = {**os.environ, "SPARKYARD_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    for words, code in (("diagnose --list", 0), ("nosuch", 2), ("plan", 2)):
        line = f"{sys.executable} -m builder {words} {closed}"
        done = subprocess.run(line, shell=True, cwd=tmp_path, env=env, text=True,
                              capture_output=True)
        assert done.returncode == code, done.stderr
        assert "internal error" not in done.stderr


def test_a_standard_error_without_room_changes_no_exit_code_and_a_result_without_room_does(
        tmp_path: Path) -> None:
    env = {**os.environ, "SPARKYARD_CACHE": str(tmp_path / "cache")}
    for words, code in (("diagnose --list 2>/dev/full", 0), ("-v plan 2>/dev/full", 0),
                        ("nosuch 2>/dev/full", 2), ("plan --nosuch 2>/dev/full", 2),
                        ("diagnose --list >/dev/full", 5), ("--help >/dev/full", 5),
                        ("plan --help >/dev/full", 5), ("plan --help", 0)):
        done = subprocess.run(f"{sys.executable} -m builder {words}", shell=True, cwd=ROOT, env=env,
                              text=True, capture_output=True)
        assert done.returncode == code, (words, done.stderr)
    summary = "from builder import console; console.table('t', ('a',), [('1',)], stderr=True)"
    done = subprocess.run(f'{sys.executable} -c "{summary}" 2>/dev/full', shell=True, cwd=ROOT,
                          env=env)
    assert done.returncode == 0, "the summary of a long run that went well"


def test_what_a_job_is_told_to_ignore_does_not_end_it() -> None:
    """By nohup: the terminal may close."""
    with subprocess.Popen([sys.executable, "-c", SLOW.replace("60", "1"), "plan"], cwd=ROOT,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGHUP)
        child.communicate()
    assert child.returncode == 0


# A build in small: this thread waits for a library's command, a pool's thread for one of its own,
# and both have children that hear nothing of a request to their parent alone.
BUSY = """
import subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
import builder.commands.plan as plan
from builder import process, process_group
NOISY = ["sh", "-c", "sleep 61 & sleep 62 & wait"]
def busy(options):
    pool = ThreadPoolExecutor(5)
    pool.submit(process.run, NOISY)
    pool.submit(process.run, NOISY, timeout=60)
    def streamed():
        with process.stream(NOISY) as child:
            child.wait()
    pool.submit(streamed)
    over = Event()
    def going_on():
        over.wait()
        process.run(["touch", "went-on"])
    pool.submit(going_on)
    def tied():
        with process_group.tied(60) as words:
            subprocess.run([*words, *NOISY], check=True)
    pool.submit(tied)
    with pool, process_group.tied(60) as words:
        child = subprocess.Popen([*words, *NOISY], stdout=subprocess.PIPE)  # as a library would
        try:
            child.stdout.read()
        finally:
            over.set()
plan.execute = busy
from builder.__main__ import main
sys.exit(main())
"""
SLEEPS = 10  # of five commands


def all_sleep(of: set[int]) -> set[int]:
    """Return the groups of what sleeps for us beside those that did before."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            if words[:2] in ([b"sleep", b"61"], [b"sleep", b"62"]):
                found.add(int(path.name))
        except OSError:
            continue
    return found - of


def await_that(look: Callable[[], bool]) -> None:
    for _ in range(600):
        if look():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to it")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_whatever_was_started_ends_with_us_in_each_thread(
        number: signal.Signals, tmp_path: Path) -> None:
    before = all_sleep(set())
    with subprocess.Popen([sys.executable, "-c", BUSY, "plan"], cwd=tmp_path, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)},
                          stderr=subprocess.PIPE) as child:
        await_that(lambda: len(all_sleep(before)) == SLEEPS)
        child.send_signal(number)
        _, errors = child.communicate()
        left = all_sleep(before)
    assert (child.returncode, left) == (130, set())
    assert errors == "warning: interrupted; run the same command again to go on\n"
    assert not (tmp_path / "went-on").exists()


def test_it_ends_with_the_program_that_started_it_and_says_so() -> None:
    """A nox that is killed hands nothing on: the kernel does."""
    code = ("import os, subprocess, sys; os.environ['SPARKYARD_PARENT'] = str(os.getpid()); "
            "child = subprocess.Popen([sys.executable, '-c', sys.argv[1], 'plan']); "
            "print(child.pid, flush=True); child.wait()")
    with subprocess.Popen([sys.executable, "-c", code, SLOW], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        started = int(parent.stdout.readline())
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
        assert parent.stderr is not None
        assert parent.stderr.read() == "warning: interrupted; run the same command again to go on\n"
    await_that(lambda: not Path(f"/proc/{started}").exists() or is_zombie(started))


def is_zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_terminal_that_is_closed_ends_it_and_breaks_no_clean_up(tmp_path: Path) -> None:
    waiting = '    print("ready", flush=True)\n    time.sleep(60)\n'
    assert waiting in SLOW
    cleaning = SLOW.replace(waiting, "    try:\n" + indent(waiting, "    ") + "    finally:\n"
                            "        print('cleaned', flush=True)\n        open('clean', 'w')\n")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execve(sys.executable, [sys.executable, "-c", cleaning, "plan"],
                  {**os.environ, "PYTHONPATH": str(ROOT)})
    seen = b""
    while not seen.endswith(b"ready\r\n"):  # or its write is not over
        seen += os.read(terminal, 100)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert (tmp_path / "clean").exists()
    assert members(child) == []


def test_a_character_that_the_terminal_lacks_does_not_end_the_program() -> None:
    done = run([sys.executable, "-m", "builder", "--matrix", "/nowhere/größe.toml", "plan"],
               env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert r"gr\xf6\xdfe.toml" in done.stderr


def test_the_help_lists_every_command_and_exit_code() -> None:
    done = run([sys.executable, "-m", "builder", "--help"], cwd=ROOT)
    for word in ("fetch", "cache", "plan", "7 internal error", "./nox -s COMMAND"):
        assert word in " ".join(done.stdout.split())


LOUD = """
import logging, sys, warnings
import builder.commands.plan as plan
def loud(options):
    try:
        raise KeyError("inside a library")
    except KeyError:
        logging.getLogger("urllib3.connection").warning("http://u:p@h/", exc_info=True)
    warnings.warn("of a library")
    compile("'\\\\d'", "x", "eval")
    return 0
plan.execute = loud
from builder.__main__ import main
sys.exit(main())
"""


def test_libraries_do_not_speak_on_the_terminal() -> None:
    """urllib3 logs a broken header with its address and a traceback; Python prints both."""
    done = run([sys.executable, "-c", LOUD, "plan"], cwd=ROOT)
    assert done.stderr == ""
