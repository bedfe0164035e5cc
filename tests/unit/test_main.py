"""The program itself: its exit codes, requests to end, and terminals of another encoding."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from builder.process import run

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


def heed_interrupts() -> None:
    """Undo what a shell does to its background jobs, which Ctrl-C is not meant for."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_request_to_end_is_an_interruption_and_no_traceback() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with subprocess.Popen([sys.executable, "-c", SLOW, "plan"], cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              preexec_fn=heed_interrupts) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            child.send_signal(number)
            _, errors = child.communicate()
        assert child.returncode == 130
        assert errors == "warning: interrupted; run the same command again to go on\n"


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
