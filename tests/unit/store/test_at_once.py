"""Real processes at one cache at once: both end right, or one says that another is at work."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from index_server import IndexServer, serve_index

from builder.locking.lock import Lock, LockedWheel
from builder.store.content_store import Store

MATRIX = Path(__file__).parents[3] / "matrix.toml"
SIZE = 2_000_000
FETCH = """
import sys
from pathlib import Path
from builder.fetch.wheels import fetch_lock
from builder.indexes.settings import Sources
from builder.locking.lock import Lock
from builder.store.content_store import Store
lock = Lock.model_validate_json(sys.argv[2])
print(fetch_lock(lock, Store(Path(sys.argv[1])), {}, user=Sources(sys.argv[3])).fetched_bytes)
"""
LAYER = """
import hashlib, sys
from pathlib import Path
from builder.store.content_store import Store
store, data = Store(Path(sys.argv[1])), bytes(5_000_000)
for number in range(20):
    key = hashlib.sha256(str(number).encode()).hexdigest()
    if store.find_layer(key) is None:
        with store.temporary("x.tar") as path:
            path.write_bytes(data)
            store.add_layer(key, path, hashlib.sha256(data).hexdigest(), len(data))
    assert store.find_layer(key).path.read_bytes() == data
"""
PRUNE = ["-m", "builder", "--matrix", str(MATRIX), "cache", "prune", "--all"]


@pytest.fixture
def index() -> Iterator[IndexServer]:
    with serve_index() as server:
        server.chunk_delay_s = 0.002
        yield server


@pytest.fixture
def lock(index: IndexServer) -> Lock:
    wheels = tuple(index.add(name, random.Random(name).randbytes(SIZE)) for name in "abcd")
    return Lock(cell="cpu", intent="sha256:0", python="3.11", platform="p", wheels=wheels)


def fetch_words(cache: Path, lock: Lock, index: IndexServer) -> list[str]:
    return ["-c", FETCH, str(cache), lock.model_dump_json(), index.url]


def at_once(cache: Path, *commands: list[str]) -> list[tuple[int, str]]:
    """Run Python with each word list at the same time; return status and output of each."""
    children = [subprocess.Popen([sys.executable, *words], cwd=MATRIX.parent, text=True,
                                 env={"SPARKYARD_CACHE": str(cache), "PATH": "/usr/bin:/bin",
                                      "PYTHONPATH": str(MATRIX.parent)},
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                for words in commands]
    return [(child.wait(), out) for child in children for out in (child.communicate()[0],)]


def whole(cache: Path, wheels: tuple[LockedWheel, ...]) -> list[bool]:
    store = Store(cache)
    return [hashlib.sha256(store.wheel_path(wheel).read_bytes()).hexdigest() == wheel.sha256
            for wheel in wheels if store.wheel_path(wheel).exists()]


def test_two_fetches_bring_each_wheel_once(tmp_path: Path, lock: Lock, index: IndexServer) -> None:
    words = fetch_words(tmp_path, lock, index)
    done = at_once(tmp_path, words, words)
    assert [status for status, _ in done] == [0, 0], done
    assert whole(tmp_path, lock.wheels) == [True] * 4
    for wheel in lock.wheels:
        assert index.sent[f"/files/{wheel.file}"] == SIZE, "one of the two waited for the other"
    assert list((tmp_path / "partial").iterdir()) == []


@pytest.mark.parametrize("repetition", range(3))
def test_a_fetch_and_a_prune(tmp_path: Path, lock: Lock, index: IndexServer,
                             repetition: int) -> None:
    (fetched, text), *pruned = at_once(tmp_path, fetch_words(tmp_path, lock, index), PRUNE, PRUNE)
    assert fetched == 0, text
    for status, said in pruned:
        assert (status == 0 and "freed" in said) or (
            status == 2 and "another run of Sparkyard is using the cache" in said), said
    assert all(whole(tmp_path, lock.wheels))


@pytest.mark.parametrize("repetition", range(3))
def test_layers_and_a_prune(tmp_path: Path, repetition: int) -> None:
    words = ["-c", LAYER, str(tmp_path)]
    one, other, (status, said) = at_once(tmp_path, words, words, PRUNE)
    assert one[0] == other[0] == 0, (one, other)
    assert status == 0 or "another run of Sparkyard is using the cache" in said
    assert list((tmp_path / "tmp").iterdir()) == []
