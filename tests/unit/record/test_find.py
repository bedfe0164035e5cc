"""Which record a name refers to, and whether a run is alive (in a fake /proc and the real one)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from builder.record.find import is_running
from builder.record.models import TIME_FORMAT

BOOTED = 1_767_225_600  # 2026-01-01T00:00:00Z
SMOKE = "/opt/bin/python /opt/bin/sparkyard smoke cpu"


def processes(folder: Path, command: str, began: float) -> Path:
    """Lay out a /proc with one command, begun so many seconds after the machine."""
    ticks = int(began * os.sysconf("SC_CLK_TCK"))
    (folder / "stat").write_text(f"cpu 1 2\nbtime {BOOTED}\n")
    (folder / "7").mkdir()
    (folder / "7" / "cmdline").write_bytes(command.replace(" ", "\0").encode())
    (folder / "7" / "stat").write_text(f"7 (a ) b) S {' '.join(['0'] * 18)} {ticks} 0\n")
    return folder


@pytest.mark.parametrize(("command", "began", "alive"), [
    (SMOKE, 3590.0, True),
    (SMOKE, 3600.4, True),  # the record's time is cut to a second
    ("python -m builder -v bench cpu", 3590.0, True),
    (SMOKE, 3000.0, False),  # another run's, which began long before
    (SMOKE, 3700.0, False),  # another run's, which began after the record
    ("sparkyard build cpu", 3590.0, False),
    ("vi smoke", 3590.0, False)])
def test_a_run_goes_on_while_its_own_process_does(tmp_path: Path, command: str, began: float,
                                                  alive: bool) -> None:
    assert is_running("2026-01-01T01:00:00Z", processes(tmp_path, command, began)) is alive


def test_where_the_system_does_not_tell_a_run_is_believed(tmp_path: Path) -> None:
    assert is_running("2026-01-01T00:00:00Z", tmp_path / "none")


def test_a_real_process_is_seen_while_it_lives() -> None:
    if not Path("/proc/stat").exists():
        pytest.skip("there is no /proc here")
    started = datetime.now(UTC).strftime(TIME_FORMAT)
    with subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)",
                           "sparkyard", "smoke"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert is_running(started)
        child.kill()
    long_ago = datetime.fromtimestamp(time.time() - 9e6, UTC).strftime(TIME_FORMAT)
    assert not is_running(long_ago)
