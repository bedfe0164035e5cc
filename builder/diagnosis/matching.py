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

    Issues stand in the order in which they show: first causes, then families of causes for lines
    that no cause explains, then echoes. ``versions`` are those of the image; what the log itself
    names counts more. Harmless lines are not searched.
    """
    log = list(lines)
    failed = [check for check in checks if check.status in (Status.FAIL, Status.FLAKY)]
    text = "\n".join([*(check.detail for check in failed),
                      *(line for line in log if not harmless(line, catalogue.harmless))])
    known = {**(versions or {}), **versions_in(log)}
    shown: list[tuple[int, int, Diagnosis]] = []
    for issue in sorted(catalogue.issues, key=lambda issue: issue.rank):
        place = _place(issue, failed, text)
        if place is None or not _fits(issue, text):
            continue
        found = Diagnosis(issue=issue, line=place[1], ruled_out=issue.ruled_out(known))
        if not (issue.general and _explained(found, shown)):
            shown.append((issue.rank, place[0], found))
    return tuple(diagnosis for *_, diagnosis in sorted(shown, key=lambda entry: entry[:2]))


def _explained(found: Diagnosis, shown: Iterable[tuple[int, int, Diagnosis]]) -> bool:
    """Say whether a line of a family of causes is one that a cause explains already."""
    return any(other.claimed and (found.line in other.line or other.line in found.line)
               for *_, other in shown)


def harmless(line: str, known: Iterable[HarmlessLine]) -> HarmlessLine | None:
    """Return what makes a line harmless, or None."""
    return next((entry for entry in known if entry.expression.search(line)), None)


def _place(issue: KnownIssue, failed: Sequence[Check], text: str) -> tuple[int, str] | None:
    """Return where and by what an issue shows: a check stands before any line."""
    for check in failed:
        if any(re.search(pattern.check, check.check) and re.search(pattern.detail, check.detail)
               for pattern in issue.checks):
            return -1, f"{check.check}: {check.detail}"
    matches = [match for search in issue.searches if (match := search.first(text))]
    if not matches:
        return None
    first = min(matches, key=lambda match: match.start())
    return first.start(), _lines_of(first, text)


def _fits(issue: KnownIssue, text: str) -> bool:
    """Say whether what must be in the log is there, and what must not be is not."""
    when, unless = issue.conditions
    return bool(when.search(text)) and not unless.search(text)


def _lines_of(match: re.Match[str], text: str) -> str:
    """Return the whole lines that a match touches, as one."""
    begin = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    whole = text[begin:end if end >= 0 else None]
    return " / ".join(line.strip() for line in whole.splitlines())
