"""A clock one day back and one day forth, by libfaketime: the answers stay the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from report_records import full_record

from builder.record.writer import RecordWriter
from builder.workspace import open_workspace
from tests.integration.foreign import OLDER, unpacked

ROOT = Path(__file__).parents[2]
COMMANDS = (("plan",), ("lock", "--check"), ("cache", "prune", "--dry-run"), ("report",))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = open_workspace(ROOT / "matrix.toml").cache
    folder = unpacked(OLDER, ["libfaketime"], cache, tmp_path_factory.mktemp("faketime"))
    return next(folder.rglob("libfaketime.so.1"))


def answer(words: tuple[str, ...], cache: Path, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "builder", *words], cwd=ROOT, capture_output=True, text=True,
        timeout=600, env={**os.environ, "SPARKYARD_CACHE": str(cache), **environment})
    return done.returncode, done.stdout


def test_answers_do_not_depend_on_the_clock(library: Path, tmp_path: Path) -> None:
    """The record is of this process, which runs on, whatever the clock of the reader says."""
    cache = tmp_path / "cache"
    assert answer(("cache", "show"), cache)[0] == 0  # made and marked as ours
    RecordWriter(cache / "records", full_record())
    right = [answer(words, cache) for words in COMMANDS]
    assert "INTERRUPTED" not in right[-1][1]
    for step, seconds in (("-1d", -86_400), ("+1d", 86_400)):
        clock = subprocess.run([sys.executable, "-c", "import time; print(time.time())"], text=True,
                               capture_output=True, check=True, env={
                                   **os.environ, "LD_PRELOAD": str(library), "FAKETIME": step})
        assert abs(float(clock.stdout) - time.time() - seconds) < 3600, "the clock is stepped"
        assert [answer(words, cache, LD_PRELOAD=str(library), FAKETIME=step)
                for words in COMMANDS] == right
