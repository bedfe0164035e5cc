"""What goes wrong around us: one clear error each, no traceback, nothing half-written."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_docker import fake_docker
from index_server import Fault, IndexServer, serve_index

from builder import cli, limits
from builder.cache_folder import claim
from builder.errors import NetworkError
from builder.fetch.wheels import fetch_lock
from builder.indexes.http import Pace
from builder.indexes.settings import Sources
from builder.locking.lock import Lock
from builder.store.content_store import Store

MATRIX = Path(__file__).parents[3] / "matrix.toml"
QUICK = Pace(attempts=2, first_s=0.001, longest_s=0.01)
DATA = b"x" * 300_000
DAY_S = 86_400


def run_fetch(index: IndexServer, cache: Path, user: Sources) -> None:
    wheel = index.add("alpha", DATA)
    lock = Lock(cell="cpu", intent="sha256:0", python="3.11", platform="p", wheels=(wheel,))
    fetch_lock(lock, Store(cache), {}, user=user, pace=QUICK)


def test_a_proxy_that_answers_403_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with serve_index() as index:
        index.always["http://index.invalid/simple/alpha/"] = Fault(403)
        proxy = index.url.removesuffix("/simple")
        with pytest.raises(NetworkError, match="answered 403") as caught:
            run_fetch(index, tmp_path, Sources("http://index.invalid/simple", proxy=proxy))
    assert caught.value.exit_code == 4
    assert "alpha-1.0-py3-none-any.whl could not be fetched" in caught.value.what


def test_an_index_that_refuses_half_way_is_one_error_and_the_rest_is_continued(
        tmp_path: Path) -> None:
    with serve_index() as index:
        index.faults["/files/alpha-1.0-py3-none-any.whl"] = [Fault(cut_after=100_000), Fault(403)]
        with pytest.raises(NetworkError, match="answered 403"):
            run_fetch(index, tmp_path, Sources(index.url))
        (partial,) = (tmp_path / "partial").iterdir()
        assert 0 < partial.stat().st_size < len(DATA)
        run_fetch(index, tmp_path, Sources(index.url))
        assert index.sent["/files/alpha-1.0-py3-none-any.whl"] < 2 * len(DATA)


@pytest.mark.parametrize("shift", [-DAY_S, DAY_S])
def test_a_clock_that_was_moved_costs_nothing(tmp_path: Path, shift: int) -> None:
    with serve_index() as index:
        run_fetch(index, tmp_path, Sources(index.url))
        then = time.time() + shift
        for path in tmp_path.rglob("*"):
            if path.is_file():
                os.utime(path, (then, then))
        run_fetch(index, tmp_path, Sources(index.url))
        assert index.sent["/files/alpha-1.0-py3-none-any.whl"] == len(DATA), "read, not fetched"


WORDS = (["cache"], ["cache", "prune"], ["cache", "prune", "--dry-run"], ["plan"], ["fetch", "cpu"],
         ["report"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user name space of its own")
@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_read_only_cache_is_one_clear_error(tmp_path: Path, words: list[str]) -> None:
    """Mounted read-only, since permissions do not hold root back."""
    cache = claim(tmp_path / "cache")
    mount = f"mount --bind {cache} {cache} && mount -o remount,ro,bind {cache}"
    if subprocess.run(["unshare", "--mount", "sh", "-c", mount], check=False,
                      capture_output=True).returncode:
        pytest.skip("this machine does not allow a mount")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, "-m",
         "builder", "--matrix", MATRIX, *words], check=False, capture_output=True, text=True,
        cwd=MATRIX.parent, env={**os.environ, "SPARKYARD_CACHE": str(cache)})
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    if words in (["cache"], ["plan"], ["cache", "prune", "--dry-run"]):
        assert done.returncode == 0, done.stderr
    elif words != ["report"]:  # which has no record to show
        assert done.returncode == 2
        assert "the cache folder cannot be used: Read-only file system" in done.stderr
        assert len([line for line in done.stderr.splitlines() if line.startswith("error")]) == 1


ANSWERED = "print('29.0.1' if '{{.Server.Version}}' in words else {})"
GARBAGE = "import os; os.write(1, bytes(range(256)) * 20)"
ASKING = (["plan", "cpu", "--engine"], ["base", "slim"], ["gate", "--image", "x:y"],
          ["smoke", "cpu"], ["build", "cpu"], ["push", "cpu"], ["push", "cpu", "--direct"],
          ["bench", "cpu"])


@pytest.mark.parametrize("answer", [
    "", GARBAGE, f"{GARBAGE}; sys.exit(1)",
    *map(ANSWERED.format, ("''", "'[]'", "'[{}]'", "'null'", "'[' * 9999"))])
@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_docker_that_answers_nothing_or_garbage_is_one_clear_error(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        words: list[str], answer: str) -> None:
    fake_docker(tmp_path, answer)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    assert cli.run(["--matrix", str(MATRIX), *words]) == 5
    shown = capsys.readouterr()
    assert shown.err.count("error: ") == 1
    assert "\ufffd" not in shown.out + shown.err
    assert len(shown.err) < 2_000


def test_a_plan_does_not_wait_long_for_an_engine_that_hangs(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
        ) -> None:
    assert limits.ENGINE_PLAN_S < limits.ENGINE_ASK_S
    fake_docker(tmp_path, "time.sleep(600)")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(limits, "ENGINE_PLAN_S", 0.5)
    assert cli.run(["--matrix", str(MATRIX), "plan", "cpu", "--engine"]) == 5
    shown = capsys.readouterr().err
    assert shown.startswith("asking the Docker engine")
    assert "did not complete it (it did not end within 0.5 s)" in shown


NAMED = (["--matrix", "PIPE", "plan"], ["diagnose", "PIPE"], ["report", "PIPE"],
         ["gate", "--wheels", "PIPE"],
         ["patch", "status", "cpu", "--file", "PIPE"], ["recipe", "import", "PIPE"],
         ["bench", "cpu", "--baseline", "PIPE"], ["bench", "cpu", "--text", "PIPE"],
         ["bench", "cpu", "--json", "PIPE"], ["smoke", "cpu", "--json", "PIPE"],
         ["plan", "--cells-to", "PIPE"])


def no_regular_files(folder: Path) -> Iterator[Path]:
    """Make a pipe whose writer never writes, a socket and a link to a device."""
    os.mkfifo(folder / "pipe")
    yield folder / "pipe"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "socket"))
    yield folder / "socket"
    (folder / "device").symlink_to("/dev/zero")
    yield folder / "device"


def matrix_beside(folder: Path) -> Path:
    """Return a matrix in a checkout of its own."""
    shutil.copy(MATRIX, folder)
    for name in ("locks", "images", "recipes", "wheels"):
        shutil.copytree(MATRIX.parent / name, folder / name)
    return folder / "matrix.toml"


@pytest.mark.parametrize("words", NAMED, ids=" ".join)
def test_a_named_file_that_is_none_is_refused_at_once(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        words: list[str]) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine")
    for path in no_regular_files(tmp_path):
        holder = os.open(path, os.O_RDWR) if path.name == "pipe" else None
        matrix = [] if "--matrix" in words else ["--matrix", str(MATRIX)]
        assert cli.run([*matrix, *(str(path) if word == "PIPE" else word for word in words)]) == 2
        shown = capsys.readouterr().err
        assert shown.count("error: ") == 1
        assert str(path) in shown
        if holder is not None:
            os.close(holder)


OURS = {"locks/cpu.toml": ["lock", "--check", "cpu"], "locks/bases.toml": ["plan", "cpu"],
        "locks/SHA256SUMS": ["lock", "--check", "cpu"], "locks/unlocked.toml": ["plan"],
        "recipes/tiny-gemma4.toml": ["recipe", "show", "tiny-gemma4"],
        "images/base/slim.toml": ["plan", "cpu"]}


@pytest.mark.parametrize("name", OURS)
def test_a_file_of_the_checkout_that_is_a_pipe_does_not_hang(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        name: str) -> None:
    monkeypatch.setenv("SPARKYARD_CACHE", str(tmp_path / "cache"))
    matrix = matrix_beside(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    holder = os.open(tmp_path / name, os.O_RDWR)
    assert cli.run(["--matrix", str(matrix), *OURS[name]]) in (2, 3)
    os.close(holder)
    shown = capsys.readouterr().err
    assert shown.count("error: ") == 1
    assert "must be a regular file" in shown
