"""A log and failed checks against ``known-issues.toml``: which failure it is, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated

import tomli
from pydantic import Field, model_validator

from builder import specifiers
from builder.config_file import shape_problems
from builder.errors import ConfigError, Problem
from builder.model import Frozen, Link, Pattern, Specifier
from builder.record.check import Check, Status

FILE = "known-issues.toml"
VERSION = re.compile(r"(?:Initializing a V1 LLM engine \(v|API server version |█ +version )"
                     r"(?P<vllm>\d+(?:\.\w+)+)")

Text = Annotated[str, Field(min_length=1)]


class Sign(Frozen):
    """A failed check that shows an issue: patterns on its name and on its detail."""

    check: Pattern
    detail: Pattern


class KnownIssue(Frozen):
    """One failure: how it looks, what it is, what to do, where upstream says so.

    A pattern is searched in the text of the log, lines joined by newlines, so that one may ask for
    two lines of a traceback. ``when`` must be in the log as well and ``unless`` must not: one sign
    may have several causes. An ``echo`` follows many causes and is named after them. ``affects``
    maps a distribution to the versions that have the fault; ``until`` says in words when it ends.
    """

    code: Annotated[str, Field(pattern=r"^F\d+$")]
    patterns: tuple[Annotated[Pattern, Field(min_length=1)], ...] = ()
    checks: tuple[Sign, ...] = ()
    when: Pattern = ""
    unless: Pattern = "(?!)"
    echo: bool = False
    affects: Mapping[str, Specifier] = Field(default_factory=dict)
    explanation: Text
    remedy: Text
    until: Text
    link: Link

    @model_validator(mode="after")
    def _is_visible(self) -> KnownIssue:
        if not self.patterns and not self.checks:
            raise ValueError("an issue needs a pattern or a check")
        try:
            _ = self.expression
        except re.error as error:
            raise ValueError(f"its patterns cannot be searched together: {error}") from error
        return self

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """Return all patterns as one; without a pattern, one that nothing matches."""
        return re.compile("|".join(f"(?:{text})" for text in self.patterns) or r"(?!)",
                          re.MULTILINE)

    def spared(self, versions: Mapping[str, str]) -> str:
        """Return the known version that cannot have this fault, or nothing."""
        for name, specifier in self.affects.items():
            version = versions.get(name, "")
            if specifiers.is_exact(version) and not specifiers.allows(specifier, version):
                return f"{name} {version} is not in {specifier}"
        return ""


class KnownIssues(Frozen):
    """The whole file."""

    issue: tuple[KnownIssue, ...]


class Diagnosis(Frozen):
    """A known issue, what shows it, and why it is not claimed where the version speaks against."""

    issue: KnownIssue
    line: str
    spared: str = ""

    def __str__(self) -> str:
        head = f"{self.issue.code}: {self.issue.explanation}"
        if self.spared:
            return f"{head}\n  not claimed: it looks like this, but {self.spared}"
        return (f"{head}\n  seen:   {self.line[:300]}\n  remedy: {self.issue.remedy}\n"
                f"  until:  {self.issue.until}\n  see:    {self.issue.link}")


def load_issues(root: Path) -> tuple[KnownIssue, ...]:
    """Read the known issues of a checkout; raise ConfigError with every error in the file."""
    try:
        raw = tomli.loads((root / FILE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError) as error:
        raise ConfigError(FILE, [Problem(FILE, f"cannot be read: {error}")]) from error
    problems = shape_problems(KnownIssues, raw)
    if problems:
        raise ConfigError(FILE, problems)
    return KnownIssues.model_validate(raw).issue


def versions_in(lines: Iterable[str]) -> dict[str, str]:
    """Return the versions that a log names: vLLM's, from its banner or its engine."""
    found = next(filter(None, map(VERSION.search, lines)), None)
    return {"vllm": found["vllm"]} if found else {}


def diagnose(lines: Iterable[str], issues: Sequence[KnownIssue], checks: Sequence[Check] = (),
             versions: Mapping[str, str] | None = None) -> tuple[Diagnosis, ...]:
    """Return each issue that a failed check or the log shows, once, in order of sight, echoes last.

    ``versions`` are those of the image; what the log names itself counts more.
    """
    log = list(lines)
    failed = [check for check in checks if check.status in (Status.FAIL, Status.FLAKY)]
    text = "\n".join([*(check.detail for check in failed), *log])
    known = {**(versions or {}), **versions_in(log)}
    found: list[tuple[bool, int, Diagnosis]] = []
    for issue in issues:
        seen = _seen(issue, failed, text)
        if seen is not None:
            found.append((issue.echo, seen[0], Diagnosis(issue=issue, line=seen[1],
                                                         spared=issue.spared(known))))
    return tuple(diagnosis for *_, diagnosis in sorted(found, key=lambda entry: entry[:2]))


def _seen(issue: KnownIssue, failed: Sequence[Check], text: str) -> tuple[int, str] | None:
    """Return where and by what an issue shows: a check stands before any line."""
    if not re.search(issue.when, text) or re.search(issue.unless, text):
        return None
    for check in failed:
        if any(re.search(sign.check, check.check) and re.search(sign.detail, check.detail)
               for sign in issue.checks):
            return -1, f"{check.check}: {check.detail}"
    match = issue.expression.search(text)
    if match is None:
        return None
    begin = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    return match.start(), " / ".join(map(str.strip, text[begin:end if end >= 0 else None]
                                         .splitlines()))
