"""The battery and the fake server, as the tests of the probes use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from builder.recipes.models import Capabilities
from builder.record.check import Status
from builder.smoke.client import Client
from builder.smoke.probes import counters
from builder.smoke.probes.cases import Case, battery
from builder.smoke.probes.run import run
from tests.unit.fake_openai import Fake, Message, serving

TINY = Capabilities(general=False, tools=True, reasoning=True)
ABLE = Capabilities(tools=True, reasoning=True, vision=True)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Client, Fake]]:
    monkeypatch.setattr(counters, "FREE_WITHIN_S", 0.5)
    with serving() as (port, fake):
        fake.sees = True
        yield Client(port, "tiny"), fake


def case(name: str) -> Case:
    return next(case for case in battery().cases if case.name == name)


def fails(client: Client, name: str) -> str:
    found = run(client, case(name))
    assert found.status is Status.FAIL, found
    return found.detail


def beyond(able: Capabilities) -> dict[str, str]:
    found = {case.name: case.inapplicable(able) for case in battery().cases}
    return {name: why for name, why in found.items() if why}


def content(text: str) -> Callable[[Message, dict[str, Any]], None]:
    return lambda message, body: message.update(content=text)


def arguments(change: Callable[[str], str]) -> Callable[[Message, dict[str, Any]], None]:
    def fault(message: Message, body: dict[str, Any]) -> None:
        for call in message.get("tool_calls") or []:
            call["function"]["arguments"] = change(call["function"]["arguments"])
    return fault
