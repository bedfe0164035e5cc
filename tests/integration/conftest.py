"""What holds for all integration tests: two lanes, and no copies in the engine that nobody needs.

A server boots on one core and then waits, so the tests that start servers run beside the others.
Each lane is in order: no two servers share the machine, and no two tests change one image's tag.
Both build ``cpu``, which is there after the first time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ROOM = 30_000_000_000  # bytes; a build needs up to 8 GB beside what other tests leave
SERVERS = (  # files whose tests start servers, or run vLLM or PyTorch in a container
    "test_bench.py", "test_exports.py", "test_kv_cache.py", "test_nights.py", "test_patches*.py",
    "test_pictures.py", "test_serve*.py", "test_smoke*.py", "test_training.py")
COPIES = ("docker", "builder", "prune", "--force", "--filter", "type=source.local")


class Lanes(LoadScopeScheduling):
    """Two workers at most have work: one has the servers, the other everything else."""

    def _split_scope(self, nodeid: str) -> str:
        """Return the lane of a test (xdist asks a scheduler for this and nothing else)."""
        file = PurePath(nodeid.partition("::")[0])
        return "servers" if any(map(file.match, SERVERS)) else "others"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes:
    """Under ``--numprocesses``, send each test to its lane.

    ``--dist loadgroup`` would do, but xdist 3.8 names no groups to pytest 9.2.
    """
    return Lanes(config, log)


@pytest.fixture(scope="module", autouse=True)
def room() -> Iterator[None]:
    """In CI, drop what the engine was sent of images, as large as they are, where disk is short."""
    yield
    if "CI" in os.environ and shutil.disk_usage("/").free < ROOM:
        with suppress(subprocess.TimeoutExpired):  # what is slow to clean up has failed no test
            subprocess.run(COPIES, check=False, capture_output=True, timeout=120)
