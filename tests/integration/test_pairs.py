"""Two commands at one cache at once, in pairs: both end right, or one says why it does not.

Real processes, started together. Pairs of one command stand with that command: two fetches, a fetch
or layers beside a prune (``tests/unit/store/test_at_once.py``), two builds, two bases.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.engine.client import Engine
from builder.image import local_name
from builder.locking.lock import read_lock
from builder.store.content_store import Store
from builder.workspace import Workspace
from tests.integration.test_build import make_workspace
from tests.integration.test_build import run_in as run_in_image
from tests.integration.test_lock import MATRIX, PACKAGES, make_index

ROOT = Path(__file__).parents[2]
BUSY = "another run of Sparkyard is using the cache"
PRUNE = ("cache", "prune", "--all")


@dataclass(frozen=True)
class Place:
    """A checkout, its package index, perhaps a folder of wheels, and a cache."""

    root: Path
    cache: Path
    index: str
    wheels: str = ""

    def at_once(self, *commands: tuple[str, ...]) -> list[tuple[int, str]]:
        """Run each command line at the same time; return status and output of each."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "UV_DEFAULT_INDEX": self.index,
                       "PIP_CONFIG_FILE": os.devnull, "UV_FIND_LINKS": self.wheels,
                       "PIP_FIND_LINKS": "", "SPARKYARD_CACHE": str(self.cache)}
        children = [subprocess.Popen(
            [sys.executable, "-m", "builder", "--matrix", str(self.root / "matrix.toml"), *words],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for words in commands]
        said = [child.communicate(timeout=600)[0] for child in children]
        assert not any("Traceback" in text or "internal error" in text for text in said), said
        return [(child.returncode, text) for child, text in zip(children, said, strict=True)]

    def lock(self, *names: str) -> None:
        """Lock cells, and nothing beside it."""
        ((status, said),) = self.at_once(("lock", *names))
        assert status == 0, said


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a checkout with two cells, of which nothing is locked yet."""
    (tmp_path / "matrix.toml").write_text(MATRIX)
    return Place(tmp_path, tmp_path / "cache", make_index(tmp_path / "index", PACKAGES["default"]))


def place_of(workspace: Workspace) -> Place:
    """Return a workspace with one locked cell, whose wheels can be fetched again."""
    for path in workspace.cache.glob("wheels/*/*.whl"):
        shutil.copy(path, workspace.root)
    return Place(workspace.root, workspace.cache, f"{workspace.root.as_uri()}/none",
                 str(workspace.root))


def right_or_busy(status: int, said: str) -> bool:
    return status == 0 or (status == 2 and BUSY in said)


@pytest.mark.parametrize(("one", "other"), [("good", "good"), ("good", "forced")])
def test_two_locks(place: Place, one: str, other: str) -> None:
    """The sums of all locks stand in one file, in which neither may lose the other's line."""
    for status, said in place.at_once(("lock", one), ("lock", other)):
        assert status == 0, said
    ((status, said),) = place.at_once(("lock", "--check", one, other))
    assert status == 0, said


def test_a_lock_and_a_fetch(place: Place) -> None:
    """The fetch sees the old lock or the new one, whole."""
    place.lock("good")
    (locked, text), (fetched, said) = place.at_once(
        ("lock", "good", "--upgrade-all"), ("fetch", "good"))
    assert (locked, fetched) == (0, 0), text + said
    lock = read_lock(place.root / "locks" / "good.toml")
    store = Store(place.cache)
    assert all(store.find_wheel(wheel) for wheel in lock.wheels)


@pytest.mark.parametrize("words", [("lock", "good", "--upgrade-all"), ("fetch", "good")])
def test_a_lock_or_a_fetch_beside_two_prunes(place: Place, words: tuple[str, ...]) -> None:
    place.lock("good")
    (status, text), *pruned = place.at_once(words, PRUNE, PRUNE)
    assert status == 0, text
    assert all(right_or_busy(*one) for one in pruned), pruned
    assert not list((place.cache / "partial").iterdir())


@pytest.mark.engine
@pytest.mark.parametrize("words", [PRUNE, ("fetch", "probe"), ("base", "slim")], ids=" ".join)
def test_a_build_beside_another_command(tmp_path: Path, words: tuple[str, ...]) -> None:
    engine = Engine.connect()
    version = {"cache": "1.7", "fetch": "1.8", "base": "1.9"}[words[0]]
    workspace = make_workspace(tmp_path / "pair", version)
    (status, text), (other, said) = place_of(workspace).at_once(
        ("build", "probe"), words)
    assert status == 0, text
    assert right_or_busy(other, said), said
    name = local_name(workspace.registry, workspace.cells[0])
    assert run_in_image(engine, name, "import vllm; print(vllm.WORD)").endswith(version)
    image = engine.inspect(name)
    assert image is not None
    for tag in image.repo_tags:
        engine.remove(tag)


@pytest.mark.engine
def test_a_base_beside_two_prunes(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "base")
    (status, text), *pruned = place_of(workspace).at_once(
        ("base", "slim", "--platform", "linux/amd64"), PRUNE, PRUNE)
    assert status == 0, text
    assert all(right_or_busy(*one) for one in pruned), pruned
