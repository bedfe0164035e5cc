"""The gate held against the loader: what it said of each extension, and what the image then did."""

from __future__ import annotations

from collections.abc import Sequence

from builder.locking.findings import Finding
from builder.record.check import Check, Status

NAME = "the gate said the same as the loader"
UNSEEN = "extensions.py runs to its end"  # a check that is only there where it did not
PREFIX = "extension "  # how inside/extensions.py calls the extensions that did not load
CANNOT_LOAD = ("missing-library", "undefined-symbol", "symbol-version")


def agreement(findings: Sequence[Finding], checks: Sequence[Check]) -> Check:
    """Compare both ways: a refusal that nobody foretold fails, and so does a false alarm.

    A finding about a library counts for the extensions that it names as its users. Where the
    extensions could not be looked at, nothing is compared.
    """
    if any(check.check == UNSEEN and check.status is not Status.PASS for check in checks):
        return Check(check=NAME, status=Status.NOT_APPLICABLE,
                     detail="the loader was not asked: extensions.py did not run to its end")
    refused = {check.check.removeprefix(PREFIX) for check in checks
               if check.check.startswith(PREFIX) and check.status is not Status.PASS}
    claims = [one for one in findings if one.code in CANNOT_LOAD]
    unforetold = sorted(path for path in refused
                        if not any(path in (one.file, *one.what.split()) for one in claims))
    foretold = {path for one in claims for path in (one.file, *one.what.split())}
    alarms = sorted(one.file for one in claims
                    if not refused & {one.file, *one.what.split()})
    wrong = [f"the loader refused {path}, the gate did not" for path in unforetold]
    wrong += [f"the gate would refuse {path}, the loader did not" for path in alarms]
    good = f"{len(refused & foretold)} refused by both"
    return Check(check=NAME, status=Status.FAIL if wrong else Status.PASS,
                 detail="; ".join(wrong) or good)
