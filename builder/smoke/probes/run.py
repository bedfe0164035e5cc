"""The battery, asked of a served model: one check a case; one that is right only again is flaky."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from builder.recipes.models import Capabilities
from builder.record.check import Check, OnCheck, Status, ignore
from builder.smoke.client import Client, Unanswered
from builder.smoke.probes.cases import Case, battery, plain
from builder.smoke.probes.kinds import probe
from builder.smoke.probes.outcome import ProbeResult

UNASKED = "questions not asked"
HANGS = "the server hangs: a question was not answered in time, nor when it was asked again"


def ask(client: Client, able: Capabilities, on_check: OnCheck = ignore,
        gone: Callable[[], str] = str) -> list[Check]:
    """Run every case that the model's capabilities allow; the others say why they do not apply.

    ``gone`` is asked after a failure: what it says of a server that is no more ends the questions,
    and one last check says how many were not asked. It may raise: then the failure is not kept.
    """
    checks: list[Check] = []
    end, unasked = "", 0

    def keep(check: Check) -> None:
        checks.append(check)
        on_check(check)

    for case in battery().cases:
        if beyond := case.inapplicable(able):
            keep(Check(check=case.name, status=Status.NOT_APPLICABLE, detail=beyond))
        elif end:
            unasked += 1
        else:
            check, hangs = _run(client, case)
            # Before the check is kept: a failure is none where the engine was stopped.
            end = (HANGS if hangs else gone()) if check.status is Status.FAIL else ""
            keep(check)
    if unasked:
        keep(Check(check=UNASKED, status=Status.NOT_APPLICABLE,
                   detail=f"{unasked} of the battery's questions were not asked: {end}"))
    return checks


def run(client: Client, case: Case) -> Check:
    """Ask a case; one that fails is asked again, and right only then is flaky, not a pass."""
    return _run(client, case)[0]


def _run(client: Client, case: Case) -> tuple[Check, bool]:
    """Return the check, and whether the question was never answered in time."""
    started = time.monotonic()
    first = attempt(lambda: probe(client, case))
    status, hangs = Status.PASS, False
    detail = f"{first.answer[:200]!r}"
    if first.problem:
        again = attempt(lambda: probe(client, case))
        status = Status.FAIL if again.problem else Status.FLAKY
        hangs = first.timed_out and again.timed_out
        detail += (f"; {first.problem}; asked again: "
                   f"{again.problem or repr(again.answer) + ' is right'}")
    return Check(check=case.name, status=status, seconds=time.monotonic() - started,
                 answer=first.answer, detail=detail,
                 request=json.dumps(plain(case, client.model), ensure_ascii=False)), hangs


def attempt(ask: Callable[[], ProbeResult]) -> ProbeResult:
    """Ask once; what the server answers instead of an answer is a problem, not an exception."""
    try:
        return ask()
    except Unanswered as error:
        return ProbeResult("", str(error), timed_out=error.timed_out)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError,
            OverflowError) as error:
        return ProbeResult("", f"the answer has another shape than the API's: "
                               f"{type(error).__name__}: {error}")
