"""The search: which known failures do the lines of a log and failed checks show, in which order."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from builder.diagnosis.models import ECHO, HINT, Catalogue, Diagnosis, HarmlessLine, KnownIssue
from builder.diagnosis.quick import QuickSearch
from builder.diagnosis.versions import versions_in
from builder.record.check import Check, Status

# A server's own settings: patterns do not search them; what stands beside a failure may be there.
SETTINGS = re.compile(
    r"non-default args: |args: Namespace\(|Initializing an? (?:\w+ )?LLM engine|"
    r"Using supplied chat template|Dumping input data for|-m vllm\.entrypoints\S* .*--|"
    r"\bvllm serve \S+ --")
# What a server prints that was asked to stop, up to the next start in the same log.
ASKED_TO_STOP = re.compile(r"\[shutdown\] API server: shutdown triggered")
SERVES = re.compile(r"Application startup complete|Uvicorn running on")
FAILS = re.compile(
    r"Traceback \(most recent|^(?:\([^)\n]{0,200}\))?[ \t]+File \"|\bERROR\b|\bKilled\b|"
    r"core dumped|NCCL WARN|\w(?:Error|Exception)\b|not compatible with", re.MULTILINE)
REPEATS = 50  # of a line are searched: enough for all tracebacks that it may stand in
NUMBERS = re.compile(r"[0-9a-f]{8,}|\d+")


def diagnose(lines: Iterable[str], catalogue: Catalogue, checks: Sequence[Check] = (),
             versions: Mapping[str, str] | None = None) -> tuple[Diagnosis, ...]:
    """Return each issue that a failed check or the log shows, once, the likeliest cause first.

    Issues stand in the order in which they show: first causes, then families of causes for lines
    that no cause explains, then echoes. ``versions`` are those of the image; what the log itself
    names counts more. Harmless lines are not searched, nor what only says how a server is set. A
    hint counts only where something failed.
    """
    log = list(_not_too_often(_without_endings(lines)))
    failed = [check for check in checks if check.status in (Status.FAIL, Status.FLAKY)]
    telling = [line for line in log if not harmless(line, catalogue.harmless)]
    text = _Text([check.detail for check in failed], telling)
    known = {**(versions or {}), **versions_in(log)}
    shown: list[_Shown] = []
    found = [one for issue in catalogue.issues if (one := _found(issue, failed, text, known))]
    if not _something_failed(failed, found, text):
        found = [one for one in found if not one.hint or one.place > text.serves]
    for one in sorted(found, key=lambda one: (one.rank, one.place)):
        if not (one.diagnosis.issue.general and _explained(one, shown)):
            shown.append(one)
    causes = (one.diagnosis for one in shown if one.diagnosis.claimed and one.rank < ECHO)
    cause = next(causes, None)
    return tuple(one.diagnosis.after(cause) if cause and one.rank == ECHO else one.diagnosis
                 for one in shown)


def _without_endings(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines, but for what a server prints once it was asked to stop."""
    stopping = False
    for line in lines:
        stopping = bool(ASKED_TO_STOP.search(line)) or (stopping and not SETTINGS.search(line))
        if not stopping:
            yield line


class _Text:
    """What is searched, and with the server's settings also what may stand beside a failure."""

    def __init__(self, details: Sequence[str], log: Sequence[str]) -> None:
        self.whole = "\n".join([*details, *log])
        self.searched = "\n".join([*details, *(line for line in log if not SETTINGS.search(line))])
        started = SERVES.search(self.searched)
        self.serves = started.start() if started else sys.maxsize  # where a server is up


def _something_failed(failed: Sequence[Check], found: Iterable[_Shown], text: _Text) -> bool:
    """Say whether anything failed: what is no log of a server from its start on is about a failure.

    A server that serves prints errors of bad requests, so that these are no sign; what it hints
    at after its start is one.
    """
    if failed or any(not one.hint and one.diagnosis.claimed for one in found):
        return True
    if text.serves < sys.maxsize:
        return False
    return not SETTINGS.search(text.whole) or bool(FAILS.search(text.searched))


def _not_too_often(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines, of those that differ in numbers and spaces only the first ``REPEATS``."""
    seen: Counter[str] = Counter()
    for line in lines:
        form = " ".join(NUMBERS.sub("0", line).split())
        seen[form] += 1
        if seen[form] <= REPEATS:
            yield line


@dataclass(frozen=True)
class _Shown:
    """An issue that shows: its rank, its place in the text (-1: a check), its diagnosis."""

    rank: int
    place: int
    diagnosis: Diagnosis
    hint: bool = False


def _explained(found: _Shown, shown: Iterable[_Shown]) -> bool:
    """Say whether one that says more and is named stands before the line of a family, or on it."""
    line = found.diagnosis.line
    return any(other.diagnosis.claimed and (
        (other.rank < found.rank and 0 <= other.place <= found.place)
        or line in other.diagnosis.line or other.diagnosis.line in line) for other in shown)


def harmless(line: str, known: Iterable[HarmlessLine]) -> HarmlessLine | None:
    """Return what makes a line harmless, or None."""
    return next((entry for entry in known if entry.expression.search(line)), None)


def _found(issue: KnownIssue, failed: Sequence[Check], text: _Text, known: Mapping[str, str]
           ) -> _Shown | None:
    """Return an issue that shows, if what must stand beside it does; a check counts first."""
    seen = _check(issue, failed) or _first(issue.searches, text.searched)
    hint = seen is None
    if hint:
        seen = _first(issue.weak_searches, text.searched)
    when, unless = issue.conditions
    if seen is None or not when.search(text.whole) or unless.search(text.whole):
        return None
    place, line = seen
    rank = max(issue.rank, HINT) if hint else issue.rank
    return _Shown(rank, place, Diagnosis(issue=issue, line=line, ruled_out=issue.ruled_out(known)),
                  hint)


def _check(issue: KnownIssue, failed: Sequence[Check]) -> tuple[int, str] | None:
    for check in failed:
        if any(re.search(pattern.check, check.check) and re.search(pattern.detail, check.detail)
               for pattern in issue.checks):
            return -1, f"{check.check}: {check.detail}"
    return None


def _first(searches: Iterable[QuickSearch], text: str) -> tuple[int, str] | None:
    matches = [match for search in searches if (match := search.first(text))]
    if not matches:
        return None
    first = min(matches, key=lambda match: match.start())
    return first.start(), _lines_of(first, text)


def _lines_of(match: re.Match[str], text: str) -> str:
    """Return the whole lines that a match touches, as one."""
    begin = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    whole = text[begin:end if end >= 0 else None]
    return " / ".join(line.strip() for line in whole.splitlines())
