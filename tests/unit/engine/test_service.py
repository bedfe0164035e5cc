"""Containers that stay, as docker's words; the real engine is asked in tests/integration."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.engine.client import Engine
from builder.engine.docker import DockerClient
from builder.engine.service import (
    UNLESS_STOPPED,
    Attached,
    create_service,
    remove_service,
    service_options,
    services,
    set_restart,
    start_service,
    stop_service,
)
from builder.errors import EngineError
from builder.serve.servers import RECIPE
from tests.unit.fake_docker import fake_docker
from tests.unit.played_servers import Played, launch


@pytest.fixture
def played(tmp_path: Path) -> tuple[Played, str]:
    engine = Played(tmp_path)
    return engine, create_service(engine.engine.docker, launch(tmp_path).spec)


def test_a_life_from_creation_to_removal(played: tuple[Played, str]) -> None:
    engine, identity = played
    docker = engine.engine.docker
    found = services(docker, RECIPE)
    assert [facts.id for facts in found] == [identity]
    assert (found[0].state.status, found[0].restart) == ("created", "no")
    start_service(docker, identity, "x")
    set_restart(docker, identity, "x", UNLESS_STOPPED)
    facts = services(docker, RECIPE)[0]
    assert (facts.state.running, facts.restart) == (True, UNLESS_STOPPED)
    stop_service(docker, identity, "x", 1)
    assert not services(docker, RECIPE)[0].state.running
    remove_service(docker, identity, "x")
    assert services(docker, RECIPE) == ()
    remove_service(docker, identity, "x")
    stop_service(docker, identity, "x", 1)


@pytest.mark.parametrize("end", [
    lambda docker: stop_service(docker, "a" * 64, "x", 1),
    lambda docker: remove_service(docker, "a" * 64, "x")])
def test_a_server_that_the_engine_does_not_end_is_not_called_ended(
        tmp_path: Path, end: Callable[[DockerClient], None]) -> None:
    fails = "print({!r}, file=sys.stderr); sys.exit(1)"
    docker = fake_docker(tmp_path, fails.format("Error response from daemon: cannot kill container"
                                                ": a: permission denied"))
    with pytest.raises(EngineError, match="permission denied"):
        end(Engine(str(docker), None, None).docker)
    fake_docker(tmp_path, fails.format("Error response from daemon: removal of container a is "
                                       "already in progress"))
    end(Engine(str(docker), None, None).docker)


def listing(folder: Path, said: str) -> DockerClient:
    """Return a docker that knows one container, and fails with these words when asked about it."""
    docker = fake_docker(folder, f"print('a' * 64 if 'ls' in words else '[]')\n"
                         f"if 'inspect' in words: print({said!r}, file=sys.stderr); sys.exit(1)")
    return Engine(str(docker), None, None).docker


@pytest.mark.parametrize("said", [
    "Error response from daemon: containerd: database not open",
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",
    "Error: No such container: x\nerror during connect: EOF", ""])
def test_an_engine_that_fails_while_it_lists_is_no_empty_list(tmp_path: Path, said: str) -> None:
    with pytest.raises(EngineError, match="listing the servers"):
        services(listing(tmp_path, said), RECIPE)


@pytest.mark.parametrize("said", [
    "Error response from daemon: No such container: x", "Error: No such container: x",
    "WARNING: Error loading config file: permission denied\nError: No such container: x"])
def test_a_container_that_goes_meanwhile_is_left_out(tmp_path: Path, said: str) -> None:
    assert services(listing(tmp_path, said), RECIPE) == ()


def test_no_process_owns_it(tmp_path: Path) -> None:
    assert "org.sparkyard.run=" not in " ".join(service_options(launch(tmp_path).spec))


def test_it_is_followed_from_its_last_start_and_left_alone(played: tuple[Played, str]) -> None:
    engine, identity = played
    start_service(engine.engine.docker, identity, "x")
    box = Attached(engine.engine.docker, identity, "image", tail=5)
    assert box.log_options() == ("--since", "2026-01-02T00:00:00Z", "--tail", "5")
    assert box.begun() == "2026-01-02T00:00:00Z"
    assert box.pids() == {99999999}
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.extend(box.follow_events()))
    reader.start()
    while not seen:
        pass
    box.close()
    reader.join(10)
    assert not reader.is_alive(), "nothing follows it any more"
    assert engine.boxes() == {"tiny-gemma4": "running"}
    with box:
        pass
    assert engine.boxes() == {"tiny-gemma4": "running"}, "a block's end removes nothing"


def test_a_container_that_is_gone_is_one_error(played: tuple[Played, str]) -> None:
    with pytest.raises(EngineError, match="removed by somebody else"):
        Attached(played[0].engine.docker, "f" * 64, "image")
