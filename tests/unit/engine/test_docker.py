"""Calls to docker: an engine that hangs, trickles or answers nonsense is one clear error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder import limits
from builder.engine.docker import DockerClient, parsed
from builder.errors import EngineError, NetworkError
from tests.unit.fake_docker import fake_docker


def client(folder: Path, body: str) -> DockerClient:
    return DockerClient((str(fake_docker(folder, body)),))


def test_the_arguments_arrive_and_the_answer_comes_back(tmp_path: Path) -> None:
    docker = client(tmp_path, "import json; print(json.dumps(words))")
    assert docker.ask("image", "ls", read=json.loads, doing="asking") == ["image", "ls"]


def test_a_failure_is_explained_unless_the_caller_wants_the_status(tmp_path: Path) -> None:
    docker = client(tmp_path, "print('unauthorized: no', file=sys.stderr); sys.exit(1)")
    with pytest.raises(NetworkError, match="HTTP 401"):
        docker.run("push", doing="pushing r/x")
    assert docker.run("push", doing="pushing r/x", check=False).returncode == 1


def test_an_engine_that_hangs_is_named_with_the_limit(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        client(tmp_path, "time.sleep(600)").run("info", doing="asking about it", timeout=0.5)
    assert caught.value.what.startswith("asking about it: the Docker engine did not complete it")
    assert "nox -s engine" in caught.value.next_step


def test_an_engine_that_trickles_is_given_up(tmp_path: Path) -> None:
    body = "while True: print('.', end='', flush=True); time.sleep(0.05)"
    with pytest.raises(EngineError, match="did not complete it"):
        client(tmp_path, body).run("info", doing="asking", timeout=0.5)


def test_endless_output_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OUTPUT_BYTES", 1_000_000)
    with pytest.raises(EngineError, match="printed more than 1 MB"):
        client(tmp_path, "while True: print('x' * 9999)").run("info", doing="asking")


def test_an_answer_is_read_only_as_long_as_its_json_fits_into_memory(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ENGINE_ANSWER_BYTES", 1_000_000)
    docker = client(tmp_path, "print('[' + '{},' * 400_000 + '{}]')")
    assert len(docker.run("info", doing="asking").stdout) > 1_000_000
    with pytest.raises(EngineError, match="printed more than 1 MB"):
        docker.ask("info", doing="asking", read=json.loads)


@pytest.mark.parametrize("answer", ["", "null", "[]", "{", "<html>", "[" * 100_000, "\x1b[2J"])
def test_an_answer_that_is_not_docker_s_is_one_error(answer: str) -> None:
    with pytest.raises(EngineError, match="not an answer of Docker") as caught:
        parsed(answer, lambda text: json.loads(text)["Server"]["Version"], "asking")
    assert "\x1b" not in str(caught.value)
    assert len(caught.value.what) < 400


def test_long_commands_are_followed_line_by_line(tmp_path: Path) -> None:
    docker = client(tmp_path, "print('one'); print('two', file=sys.stderr)")
    assert set(docker.follow("push", doing="pushing")) == {"one", "two"}


def test_a_long_command_that_fails_is_explained_by_its_last_lines(tmp_path: Path) -> None:
    docker = client(tmp_path, "print('step'); print('no space left on device'); sys.exit(1)")
    with pytest.raises(EngineError, match="disk of the Docker engine is full"):
        list(docker.follow("buildx", "bake", doing="building"))


def test_a_long_command_that_says_nothing_more_is_given_up(tmp_path: Path) -> None:
    docker = client(tmp_path, "print('step', flush=True); time.sleep(600)")
    with pytest.raises(EngineError, match="no output for"):
        list(docker.follow("push", doing="pushing", silence=0.5))


def test_a_file_system_that_ends_half_way_is_no_file_system(tmp_path: Path) -> None:
    docker = client(tmp_path, "print('tar'); sys.exit(1)")
    with pytest.raises(EngineError, match="stopped half-way"), \
            docker.output("export", doing="exporting") as stream:
        assert stream.read(3) == b"tar"


def test_a_file_system_that_never_comes_is_given_up(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ENGINE_EXPORT_SILENCE_S", 0.5)
    docker = client(tmp_path, "time.sleep(600)")
    with pytest.raises(EngineError, match="no output for"), \
            docker.output("export", doing="exporting") as stream:
        stream.read(1)
