"""What a served model is asked, and the checks that come of it; one asked twice may be flaky."""

from __future__ import annotations

import json
import time

from builder.recipes import Capabilities
from builder.smoke.client import Client, Unanswered
from builder.smoke.probes.cases import Case, battery, body
from builder.smoke.probes.kinds import KINDS
from builder.smoke.verdict import Check, Status


def ask(client: Client, able: Capabilities) -> list[Check]:
    """Run every case that the model's capabilities allow; the others say why they do not apply."""
    checks = [run(client, case) if getattr(able, case.needs) else _beyond(case)
              for case in battery().cases]
    return [*checks, Check(check="vision", status=Status.NOT_APPLICABLE, detail=(
        "no vision probe exists yet" if able.vision else "the recipe says that it does not see"))]


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


def _beyond(case: Case) -> Check:
    return Check(check=case.name, status=Status.NOT_APPLICABLE,
                 detail=f"the recipe does not give the model {case.needs}")
