"""A start followed: ready, dead with its known failure named, or healthy and wrong."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from builder.engine.docker import DockerClient
from builder.engine.service import create_service, start_service
from builder.limits import patience
from builder.recipes.models import Capabilities
from builder.serve import boot
from builder.serve.answering import client_of
from builder.serve.boot import Outcome, follow, kept_log, known_failure, phase, read_log
from builder.serve.servers import Server, survey
from builder.smoke.client import Client
from tests.unit.diagnosis.test_matching import HEALTHY
from tests.unit.fake_docker import fake_docker
from tests.unit.fake_openai import Fake
from tests.unit.played_servers import Played, launch

UNKNOWN = ("ValueError: The checkpoint you are trying to load has model type `gemma4` but "
           "Transformers does not recognize this architecture.")
ABLE = Capabilities(tools=True)


def started(played: Played, port: int) -> Server:
    planned = launch(played.folder, port=port)
    identity = create_service(played.engine.docker, planned.spec)
    start_service(played.engine.docker, identity, "x")
    return survey(played.engine).servers[0]


def followed(played: Played, port: int) -> Outcome:
    return follow(played.engine, started(played, port), ABLE, played.folder, {})


def test_a_healthy_server_is_ready_and_keeps_no_log(tmp_path: Path, fake: tuple[int, Fake]) -> None:
    outcome = followed(Played(tmp_path), fake[0])
    assert outcome == Outcome()
    assert outcome.ready
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("emulated", [False, True])
def test_an_emulated_one_has_its_time_for_the_boot_and_for_the_answers(
        tmp_path: Path, fake: tuple[int, Fake], monkeypatch: pytest.MonkeyPatch, *, emulated: bool
        ) -> None:
    given: list[float] = []

    def asking(server: Server, slow: float) -> Client:
        given.append(slow)
        return client_of(server, slow)

    monkeypatch.setattr(boot, "client_of", asking)
    played = Played(tmp_path)
    assert follow(played.engine, started(played, fake[0]), ABLE, tmp_path, {},
                  emulated=emulated).ready
    assert given == [patience(emulated=emulated)]


def test_a_dead_one_is_named_and_its_log_is_kept(tmp_path: Path, fake: tuple[int, Fake]) -> None:
    played = Played(tmp_path)
    played.change(die=["tiny-gemma4"], logs={"tiny-gemma4": [*HEALTHY[:3], UNKNOWN]})
    outcome = followed(played, fake[0])
    assert outcome.why.startswith("boot: ")
    assert "ended with status 1" in outcome.why
    assert "gemma4-unsupported" in outcome.known[0]
    assert outcome.log == kept_log(tmp_path, survey(played.engine).servers[0])
    assert UNKNOWN in outcome.log.read_text()
    assert "rm" not in played.calls(), "whether it is removed is decided elsewhere"


def test_one_that_is_healthy_and_prints_garbage_is_not_ready(
        tmp_path: Path, fake: tuple[int, Fake]) -> None:
    fake[1].fault = lambda message, body: message.update(content="!!!!!!!!!!")
    outcome = followed(Played(tmp_path), fake[0])
    assert outcome.why.startswith("text: capital of France")
    assert outcome.log


def test_a_log_tells_phase_and_failure(tmp_path: Path, fake: tuple[int, Fake]) -> None:
    played = Played(tmp_path)
    server = started(played, fake[0])
    lines = read_log(played.engine, server)
    assert lines == list(HEALTHY)
    assert phase(lines) == "ready"
    assert phase(lines[:1]) == "resolve"
    assert phase([]) == "start"
    assert phase(["EngineCore failed to start."]).startswith("dead: ")
    assert known_failure([UNKNOWN]) == "gemma4-unsupported"
    assert known_failure(lines) == ""


@pytest.mark.parametrize(("status", "read"), [
    (1, ["a line"]), (0, ["a line", "Error response from daemon: No such container: x"])])
def test_what_docker_says_of_a_log_that_it_cannot_give_is_no_line_of_it(
        tmp_path: Path, status: int, read: list[str]) -> None:
    """A server that is being removed; else it ended with ``docker-refused``."""
    body = f"""
if "inspect" in words:
    print('[{{"State": {{"StartedAt": "2026-01-01T00:00:00Z"}}}}]'); sys.exit()
print("a line"); print("Error response from daemon: No such container: x"); sys.exit({status})
"""
    engine: Any = SimpleNamespace(docker=DockerClient((str(fake_docker(tmp_path, body)),)))
    assert list(read_log(engine, cast(Server, SimpleNamespace(id="x", image="y")))) == read


TRICKLES = """
if "inspect" in words: print('[{"State": {"StartedAt": "2026-01-01T00:00:00Z"}}]'); sys.exit()
print("the first line", flush=True)
while True: print(".", end="", flush=True); time.sleep(0.05)
"""
ENDLESS = """
if "inspect" in words: print('[{"State": {"StartedAt": "2026-01-01T00:00:00Z"}}]'); sys.exit()
print("the first line")
while True: print("x" * 50_000)
"""


@pytest.mark.parametrize("body", [TRICKLES, ENDLESS])
def test_a_log_that_never_ends_is_given_up_and_its_beginning_kept(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    monkeypatch.setattr(boot, "READ_LOG_S", 1.0)
    monkeypatch.setattr(boot, "LOG_BYTES", 1_000_000)
    engine: Any = SimpleNamespace(docker=DockerClient((str(fake_docker(tmp_path, body)),)))
    server = cast(Server, SimpleNamespace(id="x", image="y"))
    lines = read_log(engine, server)
    assert lines[0] == "the first line"
    assert sum(map(len, lines)) <= 1_000_000
