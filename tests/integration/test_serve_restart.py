"""A server that is to come back does: after a death, and when the engine is started anew.

The engine's own end and start stand in for a reboot. The server is one that poses as vLLM's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from builder.engine.client import Engine
from tests.integration.served import free_port
from tests.integration.test_build import daemon
from tests.integration.test_smoke_faults import OTHER_ADDRESSES, Place, docker, ended, image

__all__ = ["image"]
pytestmark = pytest.mark.engine


def rows(place: Place, host: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code of ``status``, and the servers that it shows."""
    with place.start("status", "--json", DOCKER_HOST=host) as child:
        said, errors = child.communicate(timeout=600)
    assert "Traceback" not in errors
    return child.returncode, json.loads(said)["servers"]


def await_answer(place: Place, host: str) -> dict[str, Any]:
    """Wait until the one server answers rightly, without anybody having started it."""
    for _ in range(600):
        status, found = rows(place, host)
        if status == 0 and found and found[0]["answers"] == "answers":
            return found[0]
        time.sleep(0.1)
    raise AssertionError(found)


def inspected(host: str, what: str) -> str:
    box = docker("--host", host, "ps", "--all", "--quiet")
    return docker("--host", host, "inspect", "--format", f"{{{{{what}}}}}", box)


def test_with_restart_a_server_comes_back_until_it_is_stopped(
        image: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    place, folder = Place(tmp_path), tmp_path_factory.mktemp("reboot")
    archive = tmp_path / "image.tar"
    docker("save", "--output", str(archive), image)
    with daemon(folder, *OTHER_ADDRESSES) as (_, host):
        Engine.connect(host=host).load(archive)
        # The recipe check would read vLLM's wheel, which this cache does not have.
        ended(place.start("serve", "posing", "--image", image, "--restart", "--force", "--port",
                          str(free_port()), DOCKER_HOST=host), 0)
        first = await_answer(place, host)
        os.kill(int(inspected(host, ".State.Pid")), signal.SIGKILL)  # past the engine
        assert await_answer(place, host)["address"] == first["address"]
        assert inspected(host, ".RestartCount") == "1"
    with daemon(folder, *OTHER_ADDRESSES) as (_, host):
        assert await_answer(place, host)["address"] == first["address"]
        ended(place.start("stop", DOCKER_HOST=host), 0)
        assert rows(place, host) == (0, [])
        assert docker("--host", host, "ps", "--all", "--quiet") == ""
    shutil.rmtree(folder, ignore_errors=True)  # a third of a GB
