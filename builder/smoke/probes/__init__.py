"""What a served model is asked, and the checks that come of it; one asked twice may be flaky."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from builder.recipes.models import Capabilities
from builder.record.check import Check, OnCheck, Status, ignore
from builder.smoke.client import Client, Unanswered
from builder.smoke.probes.cases import Case, battery, plain
from builder.smoke.probes.kinds import KINDS


def ask(client: Client, able: Capabilities, on_check: OnCheck = ignore,
        gone: Callable[[], str] = str) -> list[Check]:
    """Run every case that the model's capabilities allow; the others say why they do not apply.

    ``gone`` is asked after a failure: what it says of a server that is no more ends the questions.
    """
    checks: list[Check] = []
    end = ""
    for case in battery().cases:
        if beyond := case.inapplicable(able):
            check = _not_asked(case, beyond)
        elif end:
            check = _not_asked(case, f"not asked: {end}")
        else:
            check = run(client, case)
            end = _stuck(check) or gone() if check.status is Status.FAIL else ""
        checks.append(check)
        on_check(check)
    return checks


def _stuck(check: Check) -> str:
    """Say of a question that was never answered, nor when it was asked again, that it hangs."""
    return "the server hangs" if check.detail.count("timed out") > 1 else ""


def run(client: Client, case: Case) -> Check:
    """Ask a case; one that fails is asked again, and right only then is flaky, not a pass."""
    started = time.monotonic()
    text, wrong = _try(client, case)
    status = Status.FAIL if wrong else Status.PASS
    if wrong:
        again, still = _try(client, case)
        status = Status.FAIL if still else Status.FLAKY
        wrong += f"; asked again: {still or repr(again) + ' is right'}"
    return Check(check=case.name, status=status, seconds=time.monotonic() - started, answer=text,
                 detail=f"{text[:200]!r}" + (f"; {wrong}" if wrong else ""),
                 request=json.dumps(plain(case, client.model), ensure_ascii=False))


def _try(client: Client, case: Case) -> tuple[str, str]:
    try:
        return KINDS[case.kind](client, case)
    except (Unanswered, KeyError, IndexError, TypeError, ValueError) as error:
        return "", f"{type(error).__name__}: {error}"


def _not_asked(case: Case, why: str) -> Check:
    return Check(check=case.name, status=Status.NOT_APPLICABLE, detail=why)
