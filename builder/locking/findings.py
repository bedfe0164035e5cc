"""What the gate finds, as a value: one place for its shape, so that every output says the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """``ERROR`` stops a build, ``WARNING`` is to be looked at, ``NOTE`` explains."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


def counted(count: int, noun: str) -> str:
    """Return ``1 wheel`` or ``2 wheels``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@dataclass(frozen=True)
class Finding:
    """One thing that the gate found.

    ``code`` is stable and explained by ``sparkyard gate --explain CODE``; ``number`` is that of the
    field failure (``F7``) or empty. ``what`` is a sentence for people, ``next_step`` what to do.
    ``wheel`` is a file name, ``file`` a member of it, ``expected`` and ``found`` the two values
    that differ; each is empty where it says nothing.
    """

    code: str
    number: str
    what: str
    next_step: str
    severity: Severity = Severity.ERROR
    wheel: str = ""
    file: str = ""
    expected: str = ""
    found: str = ""

    def __str__(self) -> str:
        """Return one line: the number, the sentence, what to do."""
        label = f"{self.number} {self.code}" if self.number else self.code
        return f"{label}: {self.what}; {self.next_step}"
