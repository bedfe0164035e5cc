"""Asked, a server answers rightly, wrongly, late or not at all; each is told apart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.recipes.models import Capabilities
from builder.record.check import Status
from builder.serve import answering
from builder.serve.answering import SHORT, answers, client_of, failed, short_battery
from builder.serve.servers import HOST, KEY_FILE, MODEL, PORT, Server, read_server
from builder.smoke.probes.cases import battery
from tests.unit.fake_openai import Fake, serving
from tests.unit.serve.test_servers import facts


@pytest.fixture
def fake() -> Iterator[tuple[Server, Fake]]:
    with serving() as (port, server):
        yield read_server(facts("a", {HOST: "127.0.0.1", PORT: str(port), MODEL: "tiny"})), server


def test_the_short_battery_is_of_the_battery() -> None:
    assert set(SHORT) <= {case.name for case in battery().cases}


def test_a_question_for_each_thing_that_the_model_can_do(fake: tuple[Server, Fake]) -> None:
    def asked(**able: bool) -> list[str]:
        return [check.check for check in short_battery(client_of(fake[0]), Capabilities(**able))]

    assert asked() == list(SHORT[:2])
    assert asked(tools=True, reasoning=True) == list(SHORT[:4])


def test_a_healthy_one_answers(fake: tuple[Server, Fake]) -> None:
    assert answers(fake[0]) == ("answers", True)
    assert failed(list(short_battery(client_of(fake[0]), Capabilities(tools=True)))) == ""


def test_garbage_is_wrong_though_health_is_good(fake: tuple[Server, Fake]) -> None:
    fake[1].fault = lambda message, body: message.update(content="!!!!!!!!!!")
    said, good = answers(fake[0])
    assert said.startswith("wrong: ")
    assert not good
    checks = list(short_battery(client_of(fake[0]), Capabilities()))
    assert checks[0].status is Status.FAIL
    assert failed(checks).startswith("text: capital of France")


def test_a_dead_engine_a_busy_server_and_nobody(
        fake: tuple[Server, Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    fake[1].health = 503
    assert answers(fake[0]) == ("/health answers 503", False)
    fake[1].health, fake[1].status = 200, lambda number: 500
    assert answers(fake[0])[0].startswith("wrong: status 500")
    fake[1].status, fake[1].fault = (lambda number: 200), lambda message, body: time.sleep(1)
    monkeypatch.setattr(answering, "STATUS_S", 0.3)
    said, good = answers(fake[0])
    assert said.startswith("busy")
    assert good, "a server that works for others does what it should"
    assert answers(read_server(facts("b", {PORT: "1"})))[0] == "nobody listens yet"


def test_a_key_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    said, good = answers(read_server(facts("a", {KEY_FILE: str(tmp_path / "gone")})))
    assert said.startswith("not asked: the file cannot be read")
    assert not good
