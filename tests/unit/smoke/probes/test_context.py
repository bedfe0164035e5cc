"""Prompts of a wanted length, and a server that cuts them off."""

from __future__ import annotations

from typing import Any

import pytest

from builder.record.check import Status
from builder.smoke.client import Client
from builder.smoke.probes.run import run
from tests.unit.fake_openai import Fake
from tests.unit.smoke.probes.asking import case, fails, served

__all__ = ["served"]  # the fixture


def test_the_prompt_is_as_long_as_it_says(served: tuple[Client, Fake]) -> None:
    client, fake = served
    sent = []
    fake.fault = lambda message, body: sent.append(body)
    found = run(client, case("context: needles at the start and in the middle"))
    assert found.status is Status.PASS, found
    text = sent[-1]["messages"][-1]["content"]
    assert 0.88 * 2048 < len(text.split()) < 0.92 * 2048
    assert text.index("marigold") < 60
    assert 0.45 < text.index("tungsten") / len(text) < 0.55
    assert "of 2048 tokens)" in found.answer


def test_a_prompt_that_is_cut_off_is_caught_by_its_count(served: tuple[Client, Fake],
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = served
    whole = client.chat

    def cut(body: dict[str, Any], timeout: float = 9) -> dict[str, Any]:
        got = whole(body, timeout)
        got["usage"]["prompt_tokens"] = min(got["usage"]["prompt_tokens"], 1024)
        return got

    monkeypatch.setattr(client, "chat", cut)
    assert "counts 1024 tokens" in fails(client, "context: filled to nine tenths")
