"""What a served model is asked, and the checks that come of it; one asked twice may be flaky."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from builder.recipes import Capabilities
from builder.smoke.client import Client, Unanswered
from builder.smoke.probes.cases import Case, battery, body
from builder.smoke.probes.kinds import KINDS
from builder.smoke.verdict import Check, OnCheck, Status, unheard


def ask(client: Client, able: Capabilities, on_check: OnCheck = unheard,
        gone: Callable[[], str] = str) -> list[Check]:
    """Run every case that the model's capabilities allow; the others say why they do not apply.

    ``gone`` is asked after a failure: what it says of a server that is no more ends the questions.
    """
    checks: list[Check] = []
    end = ""
    for case in battery().cases:
        if end:
            check = _not_asked(case, f"not asked: {end}")
        elif getattr(able, case.needs):
            check = run(client, case)
            end = gone() if check.status is Status.FAIL else ""
        else:
            check = _not_asked(case, f"the recipe does not give the model {case.needs}")
        checks.append(check)
        on_check(check)
    on_check(sees := Check(check="vision", status=Status.NOT_APPLICABLE, detail=(
        "no vision probe exists yet" if able.vision else "the recipe says that it does not see")))
    return [*checks, sees]


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
                 request=json.dumps(body(case, client.model), ensure_ascii=False))


def _try(client: Client, case: Case) -> tuple[str, str]:
    try:
        return KINDS[case.kind](client, case)
    except (Unanswered, KeyError, IndexError, TypeError, ValueError) as error:
        return "", f"{type(error).__name__}: {error}"


def _not_asked(case: Case, why: str) -> Check:
    return Check(check=case.name, status=Status.NOT_APPLICABLE, detail=why)
