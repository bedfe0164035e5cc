"""What holds for all integration tests: in CI the engine keeps no copies that nobody needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

ROOM = 30_000_000_000  # bytes; a build needs up to 8 GB beside what other tests leave
COPIES = ("docker", "builder", "prune", "--force", "--filter", "type=source.local")


@pytest.fixture(scope="module", autouse=True)
def room() -> Iterator[None]:
    """In CI, drop what the engine was sent of images, as large as they are, where disk is short."""
    yield
    if "CI" in os.environ and shutil.disk_usage("/").free < ROOM:
        with suppress(subprocess.TimeoutExpired):  # what is slow to clean up has failed no test
            subprocess.run(COPIES, check=False, capture_output=True, timeout=120)
