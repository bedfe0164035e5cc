"""Deaths of the real server: killed for memory as it boots, and its worker behind a live API.

The image is built first where it is not there (minutes; `nox -s quickstart` has built it).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builder.diagnosis.catalogue import load
from builder.diagnosis.matching import diagnose
from builder.engine.client import Engine
from builder.errors import EngineError
from builder.image import local_name
from builder.matrix.cells import select
from builder.recipes.launch import PORT
from builder.recipes.load import load_recipe
from builder.record.check import Check, Status
from builder.smoke.client import Client
from builder.smoke.probes.run import ask
from builder.smoke.processes import look_into
from builder.smoke.watch import Watch, still_healthy
from builder.workspace import open_workspace
from tests.integration.served import watched_server

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
RECIPE = load_recipe(ROOT, "tiny-gemma4")
FILL = "held = [b'x' * (1 << 20) for _ in range(2000)]"  # 2 GB, page by page


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    subprocess.run([sys.executable, "-m", "builder", "--matrix", str(ROOT / "matrix.toml"),
                    "build", "cpu"], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True,
                   capture_output=True)


@contextmanager
def served() -> Iterator[Watch]:
    """Start the real server and watch it."""
    workspace = open_workspace(ROOT / "matrix.toml")
    cell, = select(workspace.cells, ["cpu"], None)
    with watched_server(Engine.connect(), local_name(workspace.registry, cell), workspace,
                        cell) as watch:
        yield watch


def codes(check: Check, watch: Watch) -> list[str]:
    return [found.issue.name for found in diagnose(watch.log.lines, load(), [check])]


def test_a_server_that_the_kernel_kills_for_memory_is_named() -> None:
    """Memory that cannot be given back fills the limit; the kernel then takes the server first.

    A limit alone does not do: the server may starve below it for minutes and live.
    """
    with served() as watch:
        # The shell that fills the memory is spared, as long as there is the server to take.
        watch.box.exec(["sh", "-c", "echo 1000 >/proc/1/oom_score_adj"])
        subprocess.run(["docker", "update", "--memory", "600m", "--memory-swap", "600m",
                        watch.box.id], check=True, capture_output=True)
        filling = subprocess.Popen(["docker", "exec", watch.box.id, "python", "-c", FILL],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            boot = watch.boot()
        finally:
            filling.kill()
            filling.wait()
        assert boot.status is Status.FAIL
        assert re.fullmatch(r"the server ended with status 137 \(out of memory.*\) in phase .*",
                            boot.detail), boot.detail
        assert codes(boot, watch) == ["not-enough-memory"]


def test_a_server_that_the_host_kills_is_never_laid_to_the_engine() -> None:
    """The state says "exited" before the engine tells of the end; that is no engine's restart."""
    with served() as watch:
        pid = subprocess.run(["docker", "inspect", "--format", "{{.State.Pid}}", watch.box.id],
                             check=True, capture_output=True, text=True).stdout
        os.kill(int(pid), signal.SIGKILL)  # past the engine, as the host's kernel does
        boot = watch.boot()
        assert boot.status is Status.FAIL
        assert boot.detail == ("the server ended with status 137 (out of memory: it was killed, as "
                               'the kernel does where memory runs out) in phase "start"')


def test_a_server_that_somebody_stops_is_no_verdict() -> None:
    with served() as watch:
        subprocess.run(["docker", "kill", watch.box.id], check=True, capture_output=True)
        with pytest.raises(EngineError, match="stopped from outside"):
            watch.boot()


def test_a_worker_killed_behind_a_live_api_is_found_and_the_questions_end() -> None:
    with served() as watch:
        assert watch.boot().detail == "ready"
        client = Client(watch.box.published_port(PORT), RECIPE.model.name)
        worker, = [process for process in look_into(watch.box).processes
                   if process.name == "VLLM::Worker"]
        assert watch.gone(client) == ""
        watch.box.exec(["sh", "-c", f"kill -9 {worker.pid}"])
        checks = ask(client, RECIPE.capabilities, gone=lambda: watch.gone(client))
        asked = [check for check in checks if check.status is not Status.NOT_APPLICABLE]
        assert len(asked) <= 2, [check.detail for check in asked]
        assert asked[0].status is Status.FAIL
        found = still_healthy(watch, client)
        assert found.status is Status.FAIL
        assert "the engine died: " in found.detail
        assert "VllmWorker-0 died unexpectedly" in found.detail
        assert "engine-dead" in codes(found, watch)
