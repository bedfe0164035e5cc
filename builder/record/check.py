"""The checks of a run, and the verdict that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from builder.model import Frozen


class Status(StrEnum):
    """The outcome of one check; one that does not apply says why and is never silent.

    Flaky failed once and then held: it is not a pass.
    """

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    FLAKY = "flaky"
    NOT_APPLICABLE = "not applicable"


class Check(Frozen):
    """One check: what was looked at, the outcome, what was seen, and how long it took.

    ``request`` and ``answer`` are kept for probes of a server.
    """

    check: str
    status: Status
    detail: str = ""
    seconds: float = 0.0
    request: str = ""
    answer: str = ""


OnCheck = Callable[[Check], None]  # called with each check when it is done


def ignore(check: Check) -> None:
    """Do nothing with a check: for callers who wait for all of them."""


def passed(checks: Sequence[Check]) -> bool:
    """Say whether nothing failed and something passed: a run that saw nothing is no pass."""
    states = {check.status for check in checks}
    return not states & {Status.FAIL, Status.FLAKY} and Status.PASS in states
