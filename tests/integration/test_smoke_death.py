"""Deaths of the real server: killed for memory as it boots, and its worker behind a live API.

The image is built first where it is not there (minutes; `nox -s quickstart` has built it).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builder.diagnosis.catalogue import load
from builder.diagnosis.matching import diagnose
from builder.engine.client import Container, Engine
from builder.image import local_name
from builder.matrix.cells import select
from builder.recipes.launch import PORT
from builder.recipes.models import load_recipe
from builder.record.check import Check, Status
from builder.smoke.client import Client
from builder.smoke.crew import list_processes
from builder.smoke.log import Log
from builder.smoke.probes import ask
from builder.smoke.readiness import Boot
from builder.smoke.server import _server
from builder.smoke.watch import Watch, still_healthy
from builder.workspace import open_workspace

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
RECIPE = load_recipe(ROOT, "tiny-gemma4")


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    subprocess.run([sys.executable, "-m", "builder", "--matrix", str(ROOT / "matrix.toml"),
                    "build", "cpu"], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True,
                   capture_output=True)


@contextmanager
def served() -> Iterator[tuple[Container, Watch]]:
    """Start the real server and watch it."""
    workspace = open_workspace(ROOT / "matrix.toml")
    cell, = select(workspace.cells, ["cpu"], None)
    with _server(Engine.connect(), local_name(workspace.registry, cell), cell, RECIPE, ROOT) as box:
        yield box, Watch(box, Log(box), Boot())


def codes(check: Check, watch: Watch) -> list[str]:
    return [found.issue.name for found in diagnose(watch.log.lines, load(), [check])]


def test_a_server_that_the_kernel_kills_for_memory_is_named() -> None:
    with served() as (box, watch):
        subprocess.run(["docker", "update", "--memory", "150m", "--memory-swap", "150m", box.id],
                       check=True, capture_output=True)
        found = watch.boot()
        assert found.status is Status.FAIL
        assert found.detail == 'the server ended with status 137 (out of memory) in phase "start"'
        assert codes(found, watch) == ["not-enough-memory"]


def test_a_worker_killed_behind_a_live_api_is_found_and_the_questions_end() -> None:
    with served() as (box, watch):
        assert watch.boot().detail == "ready"
        client = Client(box.published_port(PORT), RECIPE.model.name)
        worker, = [one for one in list_processes(box) if one.name == "VLLM::Worker"]
        assert watch.gone(client) == ""
        box.exec(["sh", "-c", f"kill -9 {worker.pid}"])
        checks = ask(client, RECIPE.capabilities, gone=lambda: watch.gone(client))
        asked = [check for check in checks if check.status is not Status.NOT_APPLICABLE]
        assert len(asked) <= 2, [check.detail for check in asked]
        assert asked[0].status is Status.FAIL
        found = still_healthy(watch, client)
        assert found.status is Status.FAIL
        assert "the engine died: " in found.detail
        assert "VllmWorker-0 died unexpectedly" in found.detail
        assert "engine-dead" in codes(found, watch)
