"""What the tests of servers share: a quick watch, and the fake model server behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from builder.smoke import container_end, watch
from tests.unit.fake_openai import Fake, serving


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, Fake]]:
    monkeypatch.setattr(container_end, "DIE_WITHIN_S", 5.0)
    monkeypatch.setattr(container_end, "KILL_AFTER_DIE_S", 0.0)
    monkeypatch.setattr(watch, "LAST_WORDS_S", 0.1)
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.1)
    with serving() as (port, server):
        server.sees = True  # as the recipes of the tiny models are
        yield port, server
