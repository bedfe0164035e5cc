"""All fuzz tests, where the kernel holds what they promise: nothing else written, at most 1 GB.

Each module of ``tests/fuzz`` runs in a mount name space whose root is read-only but for one folder.
``SPARKYARD_FUZZ_EXAMPLES=100000`` makes them longer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("read_only_root.py")
MEMORY = 1_000_000_000
MODULES = [*sorted(f"tests/fuzz/{path.name}" for path in (ROOT / "tests" / "fuzz").glob("*.py")),
           "tests/unit/bench/test_client.py::test_no_answer_breaks_the_client"]
WRITES = """
import sys, tempfile
from pathlib import Path
for folder in sys.argv[1:]:
    try:
        tempfile.TemporaryFile(dir=folder).close()
        print("written", folder)
    except OSError as error:
        print(error.strerror, folder)
"""


def name_space() -> list[str]:
    """Return the words that start a program with mounts of its own."""
    for words in ([], ["sudo", "-n"]):
        user = [] if words or os.geteuid() == 0 else ["--map-root-user"]
        start = [*words, "unshare", "--mount", *user]
        if not subprocess.run([*start, "true"], capture_output=True, check=False).returncode:
            return start
    reason = "needs root, sudo without a password, or user name spaces"
    if "CI" in os.environ:
        pytest.fail(reason)
    pytest.skip(reason)


def closed(folder: Path, *command: str) -> Sequence[str]:
    """Return the words that run a command with ``folder`` as the one place to write to."""
    place = {"HOME": folder, "TMPDIR": folder, "SPARKYARD_CACHE": folder / "cache",
             "HYPOTHESIS_STORAGE_DIRECTORY": folder / "examples", "PYTHONDONTWRITEBYTECODE": "1",
             "PYTEST_ADDOPTS": "",  # those of the run around it write files elsewhere
             "MALLOC_ARENA_MAX": "1"}  # address space, of which each thread else takes 64 MB
    return [*name_space(), "env", *(f"{name}={value}" for name, value in place.items()),
            sys.executable, str(DRIVER), str(folder), str(MEMORY), *command]


def test_only_the_one_folder_can_be_written(tmp_path: Path) -> None:
    folders = [str(tmp_path), str(ROOT), str(Path.home()), "/tmp", "/var/tmp", "/dev/shm", "/run"]
    done = subprocess.run(closed(tmp_path, sys.executable, "-c", WRITES, *folders), check=True,
                          capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"written {tmp_path}", *(
        f"Read-only file system {folder}" for folder in folders[1:])]


def test_the_memory_is_limited(tmp_path: Path) -> None:
    done = subprocess.run(closed(tmp_path, sys.executable, "-c", f"bytes({MEMORY})"), check=False,
                          capture_output=True, text=True)
    assert done.stderr.endswith("MemoryError\n")


@pytest.mark.parametrize("module", MODULES)
def test_fuzz(tmp_path: Path, module: str) -> None:
    words = closed(tmp_path, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                   "--basetemp", str(tmp_path / "tests"), module)
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as child:
        assert child.stdout is not None
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, output[-20_000:]
    assert usage.ru_maxrss * 1024 < MEMORY
