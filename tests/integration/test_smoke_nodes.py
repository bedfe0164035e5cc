"""Two nodes, really: the level as a user runs it, and a follower that is lost while nobody asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from builder.engine.client import Engine
from builder.image import local_name
from builder.locking.lock import load_for
from builder.matrix.cells import select
from builder.recipes.load import load_recipe
from builder.record.check import Check
from builder.smoke.loss import lose_a_node
from builder.smoke.models import Observations, Run
from builder.smoke.nodes import booted_nodes
from builder.workspace import open_workspace
from tests.integration.served import left_by

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def sparkyard(*words: str) -> tuple[int, str, int]:
    """Return the status, all that was said, and the id of the process that is over."""
    command = [sys.executable, "-m", "builder", "--matrix", str(ROOT / "matrix.toml"), *words]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        said, _ = child.communicate()
    return child.returncode, said, child.pid


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    status, said, _ = sparkyard("build", "cpu")
    assert status == 0, said


def test_the_level_is_green_and_its_loss_is_named(tmp_path: Path) -> None:
    status, said, pid = sparkyard("smoke", "cpu", "--nodes", "2",
                                  "--json", str(tmp_path / "record.json"))
    assert status == 0, said
    record = json.loads((tmp_path / "record.json").read_text())
    checks = {check["check"]: check for check in record["checks"]}
    assert (record["level"], record["verdict"]) == ("2x2", "pass")
    assert "TP rank 1" in checks["the model is split over the nodes"]["detail"]
    assert "node 1, a follower" in checks["a node is lost in the middle of an answer"]["detail"]
    assert checks["all nodes are stopped"]["status"] == "pass"
    assert left_by(pid) == []


def test_a_follower_lost_while_idle_is_named_and_nothing_is_left() -> None:
    workspace, engine = open_workspace(ROOT / "matrix.toml"), Engine.connect()
    cell, = select(workspace.cells, ["cpu"], None)
    reference = local_name(workspace.registry, cell)
    facts = engine.inspect(reference)
    assert facts is not None
    run = Run(workspace, engine, cell, load_for(cell, workspace.locks), "2x2",
              load_recipe(ROOT, "tiny-gemma4"), None, reference, facts)
    told: list[Check] = []
    with booted_nodes(run, Observations(), told.append) as (watch, client):
        assert client, told
        lose_a_node(watch, client, told.append, idle=True)
        assert watch.gone(client).startswith("node 1, a follower: ")
    assert [check.status.value for check in told] == ["pass"] * 3, told
    assert left_by(os.getpid()) == []
