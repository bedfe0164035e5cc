"""The search: which known failures do the lines of a log and failed checks show, in which order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from builder.diagnosis.models import Catalogue, Diagnosis, HarmlessLine, KnownIssue
from builder.diagnosis.versions import versions_in
from builder.record.check import Check, Status


def diagnose(lines: Iterable[str], catalogue: Catalogue, checks: Sequence[Check] = (),
             versions: Mapping[str, str] | None = None) -> tuple[Diagnosis, ...]:
    """Return each issue that a failed check or the log shows, once, the likeliest cause first.

    Issues stand in the order in which they show, echoes of other failures last. ``versions`` are
    those of the image; what the log itself names counts more. Harmless lines are not searched.
    """
    log = list(lines)
    failed = [check for check in checks if check.status in (Status.FAIL, Status.FLAKY)]
    text = "\n".join([*(check.detail for check in failed),
                      *(line for line in log if not harmless(line, catalogue.harmless))])
    known = {**(versions or {}), **versions_in(log)}
    shown: list[tuple[bool, int, Diagnosis]] = []
    for issue in catalogue.issues:
        place = _place(issue, failed, text)
        if place is not None and _fits(issue, text):
            shown.append((issue.echo, place[0], Diagnosis(
                issue=issue, line=place[1], ruled_out=issue.ruled_out(known))))
    return tuple(diagnosis for *_, diagnosis in sorted(shown, key=lambda entry: entry[:2]))


def harmless(line: str, known: Iterable[HarmlessLine]) -> HarmlessLine | None:
    """Return what makes a line harmless, or None."""
    return next((entry for entry in known if entry.expression.search(line)), None)


def _place(issue: KnownIssue, failed: Sequence[Check], text: str) -> tuple[int, str] | None:
    """Return where and by what an issue shows: a check stands before any line."""
    for check in failed:
        if any(re.search(pattern.check, check.check) and re.search(pattern.detail, check.detail)
               for pattern in issue.checks):
            return -1, f"{check.check}: {check.detail}"
    matches = [match for expression in issue.expressions if (match := expression.search(text))]
    if not matches:
        return None
    first = min(matches, key=lambda match: match.start())
    return first.start(), _lines_of(first, text)


def _fits(issue: KnownIssue, text: str) -> bool:
    """Say whether what must be in the log is there, and what must not be is not."""
    return bool(re.search(issue.when, text)) and not re.search(issue.unless, text)


def _lines_of(match: re.Match[str], text: str) -> str:
    """Return the whole lines that a match touches, as one."""
    begin = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    whole = text[begin:end if end >= 0 else None]
    return " / ".join(line.strip() for line in whole.splitlines())
