"""The ways to ask: log probabilities, the same question again, what may be too much."""

from __future__ import annotations

import pytest

from builder.smoke.client import Client
from tests.unit.fake_openai import Fake
from tests.unit.smoke.probes.asking import fails, served

__all__ = ["served"]  # the fixture


@pytest.mark.parametrize("value", [float("nan"), None, 0.5, float("-inf")])
def test_log_probabilities_are_numbers(served: tuple[Client, Fake], value: float | None) -> None:
    client, fake = served
    fake.logprob = value
    assert "log probabilities" in fails(client, "logprobs")


def test_another_answer_at_temperature_0_is_caught(served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.fault = lambda message, body: message.update(content=f"Madrid {fake.asked}")
    assert "another answer" in fails(client, "same answer at temperature 0")


def test_a_picture_that_kills_the_request_is_caught(served: tuple[Client, Fake]) -> None:
    client, fake = served
    fake.status = lambda number: 500
    assert "status 500" in fails(client, "vision: 12,000 by 12,000 pixels")
