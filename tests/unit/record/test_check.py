"""What a verdict follows from: nothing failed, nothing was flaky, and something was seen."""

from __future__ import annotations

import pytest

from builder.record.check import Check, Status, passed


@pytest.mark.parametrize(("states", "good"), [
    ([Status.PASS], True), ([Status.PASS, Status.NOT_APPLICABLE], True),
    ([Status.PASS, Status.FAIL], False), ([Status.PASS, Status.FLAKY], False),
    ([Status.FAIL], False), ([Status.NOT_APPLICABLE], False), ([], False)])
def test_the_verdict(states: list[Status], *, good: bool) -> None:
    assert passed([Check(check="x", status=status) for status in states]) is good
