"""A log against ``known-issues.toml``: which failure of the field it is, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated

import tomli
from pydantic import AfterValidator, Field

from builder.errors import ConfigError, Problem
from builder.matrix import Frozen
from builder.parse import shape_problems

FILE = "known-issues.toml"


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return text


class KnownIssue(Frozen):
    """One failure: how it looks, what it is, what to do, where upstream says so."""

    code: Annotated[str, Field(pattern=r"^F\d+$")]
    patterns: tuple[Annotated[str, AfterValidator(_pattern)], ...] = Field(min_length=1)
    explanation: str
    remedy: str
    link: str

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """Return all patterns as one."""
        return re.compile("|".join(f"(?:{text})" for text in self.patterns))


class KnownIssues(Frozen):
    """The whole file."""

    issue: tuple[KnownIssue, ...]


class Diagnosis(Frozen):
    """A known issue and the line that shows it."""

    issue: KnownIssue
    line: str

    def __str__(self) -> str:
        return (f"{self.issue.code}: {self.issue.explanation}\n  seen:   {self.line[:300]}\n"
                f"  remedy: {self.issue.remedy}\n  see:    {self.issue.link}")


def load_issues(root: Path) -> tuple[KnownIssue, ...]:
    """Read the known issues of a checkout; raise ConfigError with every error in the file."""
    try:
        raw = tomli.loads((root / FILE).read_text(encoding="utf-8"))
    except (OSError, tomli.TOMLDecodeError) as error:
        raise ConfigError(FILE, [Problem(FILE, f"cannot be read: {error}")]) from error
    problems = shape_problems(KnownIssues, raw)
    if problems:
        raise ConfigError(FILE, problems)
    return KnownIssues.model_validate(raw).issue


def diagnose(lines: Iterable[str], issues: Sequence[KnownIssue]) -> tuple[Diagnosis, ...]:
    """Return each issue that a line shows, once, with the first such line, in order of sight."""
    found: dict[str, Diagnosis] = {}
    for line in lines:
        for issue in issues:
            if issue.code not in found and issue.expression.search(line):
                found[issue.code] = Diagnosis(issue=issue, line=line.strip())
    return tuple(found.values())
