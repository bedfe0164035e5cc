"""The gate compared with the loader: which extensions each of them refuses."""

from __future__ import annotations

from collections.abc import Sequence

from builder.locking.findings import Finding, FindingCode
from builder.record.check import Check, Status

NAME = "the gate said the same as the loader"
UNSEEN = "extensions.py runs to its end"  # a check that is only there where it did not
PREFIX = "extension "  # how inside/extensions.py calls the extensions that did not load
CANNOT_LOAD = (FindingCode.MISSING_LIBRARY, FindingCode.UNDEFINED_SYMBOL,
               FindingCode.SYMBOL_VERSION)


def agreement(findings: Sequence[Finding], checks: Sequence[Check]) -> Check:
    """Compare both ways: a refusal that the gate missed fails, and so does a false alarm.

    A finding counts for the extensions that it says are affected. Where the extensions could not
    be loaded at all, nothing is compared.
    """
    if any(check.check == UNSEEN and check.status is not Status.PASS for check in checks):
        return Check(check=NAME, status=Status.NOT_APPLICABLE,
                     detail="the loader was not asked: extensions.py did not run to its end")
    refused = {check.check.removeprefix(PREFIX) for check in checks
               if check.check.startswith(PREFIX) and check.status is not Status.PASS}
    foretold = {path for finding in findings if finding.code in CANNOT_LOAD
                for path in finding.affected}
    wrong = [f"the loader refused {path}, the gate did not" for path in sorted(refused - foretold)]
    wrong += [f"the gate would refuse {path}, the loader did not"
              for path in sorted(foretold - refused)]
    good = f"{len(refused & foretold)} refused by both"
    return Check(check=NAME, status=Status.FAIL if wrong else Status.PASS,
                 detail="; ".join(wrong) or good)
