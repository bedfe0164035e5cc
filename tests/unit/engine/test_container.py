"""A container as docker's words; how a real one behaves is tested with a real engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.engine.container import Container, ContainerState, RunSpec, create_options
from builder.engine.docker import DockerClient
from builder.errors import EngineError
from tests.unit.fake_docker import fake_docker

ID = "c" * 64
BODY = """
open({log!r}, "a").write(" ".join(words) + "\\n")
if "create" in words: print({id!r})
if "inspect" in words: print({entry!r})
if "cp" in words and {fails}: print("no such container:path", file=sys.stderr); sys.exit(1)
if "events" in words: print("start"); print("exec_create: x"); print("die"); sys.exit({events})
"""


def docker(folder: Path, *, identity: str = ID, state: object = None, fails: bool = False,
           events: int = 0) -> DockerClient:
    entry = json.dumps([{"State": state, "Created": "2026-01-01T00:00:00Z"}])
    return DockerClient((str(fake_docker(folder, BODY.format(
        log=str(folder / "log"), id=identity, entry=entry, fails=fails, events=events))),))


def calls(folder: Path) -> list[str]:
    return [line.split()[1] for line in (folder / "log").read_text().splitlines()]


def test_a_spec_becomes_options_and_values_of_secrets_do_not() -> None:
    words = create_options(RunSpec(
        "image", env={"A": "b"}, forwarded_env=("HF_TOKEN",), ports=(8000,), gpus="all",
        mounts=((Path("/a"), "/b"),), writable_mounts=((Path("/c"), "/d"),), interactive=True,
        network="n", alias="node0"))
    text = " ".join(words)
    for part in ("--env A=b", "--env HF_TOKEN", "--publish 127.0.0.1::8000", "--gpus all",
                 "type=bind,src=/a,dst=/b,readonly", "--mount type=bind,src=/c,dst=/d ",
                 "--interactive", "--pull never", "--network n", "--network-alias node0"):
        assert part in text
    assert "HF_TOKEN=" not in text


def test_a_container_is_removed_at_the_end_of_its_block_and_after_a_failure(tmp_path: Path) -> None:
    def fails() -> None:
        with Container(docker(tmp_path), RunSpec("image")) as box:
            assert box.id == ID
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert calls(tmp_path) == ["create", "rm"]


def test_it_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    with Container(docker(tmp_path), RunSpec("image")) as box:
        box.stop(5)
    assert f"container stop --time 5 {ID}" in (tmp_path / "log").read_text()
    assert calls(tmp_path) == ["create", "stop", "rm"]


def test_a_copy_that_fails_leaves_no_container(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="copying"):
        Container(docker(tmp_path, fails=True), RunSpec("image", copies=((tmp_path, "/x"),)))
    assert calls(tmp_path) == ["create", "cp", "rm"]


def test_an_engine_that_names_no_container_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="not an answer of Docker"):
        Container(docker(tmp_path, identity=""), RunSpec("image"))


@pytest.mark.parametrize(("status", "running"), [
    ("created", False), ("running", True), ("paused", True), ("restarting", True),
    ("exited", False), ("dead", False)])
def test_a_paused_container_has_not_ended(tmp_path: Path, status: str, running: bool) -> None:
    state = {"Status": status, "ExitCode": 3, "OOMKilled": True}
    box = Container(docker(tmp_path, state=state), RunSpec("image"))
    assert box.state() == ContainerState(status, 3, out_of_memory=True, error="")
    assert box.state().running is running


@pytest.mark.parametrize("state", [None, {}, {"Status": "exited", "ExitCode": "x"}])
def test_a_state_that_cannot_be_read_is_one_error(tmp_path: Path, state: object) -> None:
    box = Container(docker(tmp_path, state=state), RunSpec("image"))
    with pytest.raises(EngineError, match="not an answer of Docker"):
        box.state()


def test_only_the_events_of_its_life_are_followed(tmp_path: Path) -> None:
    box = Container(docker(tmp_path), RunSpec("image"))
    assert list(box.follow_events()) == ["start", "die"]


def test_a_broken_connection_is_an_error_and_no_end(tmp_path: Path) -> None:
    box = Container(docker(tmp_path, events=1), RunSpec("image"))
    with pytest.raises(EngineError, match="connection to the Docker engine was lost"):
        list(box.follow_events())
