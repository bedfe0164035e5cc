"""What the catalogue holds: known issues, harmless lines, and what a diagnosis says of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from builder import specifiers
from builder.diagnosis.quick import QuickSearch
from builder.model import Frozen, Link, Name, Pattern, Specifier
from builder.record.models import KnownFailure
from builder.wording import WrongValueError

HINT, ECHO = 2, 3  # ranks, see KnownIssue.rank
ANY_SPACES = re.compile(r"(?:\(\?\w+\))?\^?\\s[*+]")
SEEN_LIMIT = 300  # characters of a log's line that are shown

Text = Annotated[str, Field(min_length=1)]


def _within_lines(pattern: str) -> str:
    """Refuse spaces of any kind at a line's begin: they are tried over all lines that follow."""
    if ANY_SPACES.match(pattern):
        raise WrongValueError(f"{pattern!r} may begin with the ends of lines",
                              r"write [ \t]* instead of \s*")
    return pattern


Search = Annotated[Pattern, Field(min_length=1), AfterValidator(_within_lines)]


class CheckPattern(Frozen):
    """A failed check that shows an issue: patterns on its name and on its detail."""

    check: Pattern
    detail: Pattern


class OtherCause(Frozen):
    """Another cause of the same lines, and what would show that it is this one."""

    cause: Text
    shown_by: Text

    def __str__(self) -> str:
        return f"{self.cause}; shown by: {self.shown_by}"


class Reported(Frozen):
    """A failure that owners report and no known line proves: it is explained, never matched."""

    name: Name
    symptom: Text
    cause: Text
    confirmed: bool = False
    remedy: Text
    until: Text
    links: Annotated[tuple[Link, ...], Field(min_length=1)]


class KnownIssue(Frozen):
    """One failure: how it looks, what causes it, what to do, where upstream says so.

    A pattern is searched in the text of the log, lines joined by newlines, so that one may ask for
    two lines of a traceback. ``when`` must be in the log as well and ``unless`` must not. Where the
    same line has several causes, ``shown_by`` says what would show this one, and ``or_else`` names
    the others, likeliest first. A ``general`` issue stands for a whole family: it is named after
    those that say more, and not at all for what comes after one of them. ``hints`` are lines that
    are no error in themselves: an issue that shows by a hint only stands behind those. An ``echo``
    follows from many causes and is named last. ``affects`` maps a distribution to the versions that
    have the fault; ``until`` says in words when it ends. ``confirmed`` says that a fix, an A/B
    test, a maintainer or our own measurement backs the cause.
    """

    name: Name
    alias: Annotated[str, Field(pattern=r"^F\d+$")] | None = None
    patterns: tuple[Search, ...] = ()
    hints: tuple[Search, ...] = ()
    checks: tuple[CheckPattern, ...] = ()
    when: Pattern = ""
    unless: Pattern = "(?!)"
    general: bool = False
    echo: bool = False
    affects: Mapping[str, Specifier] = Field(default_factory=dict)
    confirmed: bool = True
    cause: Text
    shown_by: str = ""
    or_else: tuple[OtherCause, ...] = ()
    remedy: Text
    until: Text
    links: Annotated[tuple[Link, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_visible(self) -> KnownIssue:
        if not self.patterns and not self.hints and not self.checks:
            raise ValueError("an issue needs a pattern or a check")
        return self

    @cached_property
    def searches(self) -> tuple[QuickSearch, ...]:
        """Return the patterns, ready to search; ``^`` and ``$`` are a line's ends."""
        return tuple(QuickSearch.of(text) for text in self.patterns)

    @cached_property
    def weak_searches(self) -> tuple[QuickSearch, ...]:
        """Return the hints, ready to search."""
        return tuple(QuickSearch.of(text) for text in self.hints)

    @cached_property
    def conditions(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """Return ``when`` and ``unless``, ready to search."""
        return re.compile(self.when), re.compile(self.unless)

    @property
    def rank(self) -> int:
        """Return 0 for a cause, 1 for a family of causes, 3 for what follows from others."""
        return ECHO if self.echo else int(self.general)

    def ruled_out(self, versions: Mapping[str, str]) -> str:
        """Return why the known versions cannot have this fault, or nothing."""
        for name, affected in self.affects.items():
            version = versions.get(name, "")
            if specifiers.is_exact(version) and not specifiers.allows(affected, version):
                return f"{name} {version} is not affected (only {affected} is)"
        return ""


class HarmlessLine(Frozen):
    """A line that healthy servers print too, however bad it looks; it is never a cause."""

    pattern: Search
    why: Text
    links: Annotated[tuple[Link, ...], Field(min_length=1)]

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """Return the pattern, ready to search in one line."""
        return re.compile(self.pattern)


class Catalogue(Frozen):
    """All known issues and all lines that are known as harmless."""

    issue: tuple[KnownIssue, ...] = ()
    harmless: tuple[HarmlessLine, ...] = ()
    reported: tuple[Reported, ...] = ()

    @property
    def issues(self) -> tuple[KnownIssue, ...]:
        """Return the issues, in the order of the files."""
        return self.issue


class Diagnosis(Frozen):
    """A known issue, the line that shows it, and why a version rules it out, if one does."""

    issue: KnownIssue
    line: str
    ruled_out: str = ""

    @property
    def claimed(self) -> bool:
        """Say whether this is named as the failure, not only as something that looks like it."""
        return not self.ruled_out

    def after(self, cause: Diagnosis) -> Diagnosis:
        """Return it as what follows from a cause: where to look is known, guesses are not shown."""
        pointer = f"see {cause.issue.name}: this follows from it"
        issue = self.issue.model_copy(update={"shown_by": "", "or_else": (), "remedy": pointer})
        return self.model_copy(update={"issue": issue})

    def failure(self) -> KnownFailure:
        """Return it as a record keeps it."""
        issue = self.issue
        head = KnownFailure(name=issue.name, cause=issue.cause, confirmed=issue.confirmed,
                            ruled_out=self.ruled_out)
        if self.ruled_out:
            return head
        return head.model_copy(update={
            "seen": self.line[:SEEN_LIMIT], "remedy": issue.remedy, "until": issue.until,
            "shown_by": issue.shown_by, "or_else": tuple(map(str, issue.or_else)),
            "links": issue.links})

    def __str__(self) -> str:
        return str(self.failure())
