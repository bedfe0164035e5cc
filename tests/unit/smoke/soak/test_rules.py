"""The limits of a soak: each has a value and a reason."""

from __future__ import annotations

from builder.smoke.soak.rules import patient, rules


def test_every_limit_has_its_reason() -> None:
    found = rules()
    assert found.frozen.value > found.sample.value * 3
    assert found.leak.warm_up_share.value < 1
    assert len(found.leak.slope.reason) > 10
    assert found.long.tokens.value == 12_000


def test_a_slow_server_is_given_more_time_and_no_more_memory() -> None:
    assert patient(10).frozen.value == 10 * rules().frozen.value
    assert patient(10).leak == rules().leak
