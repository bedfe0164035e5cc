"""The error tree: one base, one exit code a kind; each says what, where and what to do next.

Errors carry data and are formatted once, by ``builder.console``, when ``builder.__main__``
turns them into an exit code.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


def command(verb: str, *arguments: str) -> str:
    """Return a command of ours as messages show it: `./nox -s lock -- tf5`, quoted for a shell.

    The one place that knows how users call us; the README uses the same form.
    """
    words = f"./nox -s {verb}" + (f" -- {shlex.join(arguments)}" if arguments else "")
    return f"`{words}`"


class SparkyardError(Exception):
    """Base of every error that a user may see.

    ``what`` is the failure in one sentence, ``where`` the file and dotted key (or URL, image,
    wheel) it belongs to, ``next_step`` what to do about it.
    """

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "error"

    def __init__(self, what: str, *, where: str = "", next_step: str = "") -> None:
        """Keep the three parts apart, so that they can be shown aligned or as JSON."""
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step

    def __str__(self) -> str:
        parts = [self.what, self.where and f"at {self.where}", self.next_step]
        return "; ".join(part for part in parts if part)


class VerdictError(SparkyardError):
    """A gate or a smoke test said no (exit code 1)."""

    exit_code = 1
    kind = "verdict"


class UsageError(SparkyardError):
    """The command line or a file the user wrote cannot be used (exit code 2)."""

    exit_code = 2
    kind = "usage"


class HostError(UsageError):
    """This machine, its cache folder or a setting of it is at fault, whatever was asked for."""

    kind = "host"


@dataclass(frozen=True)
class Problem:
    """One configuration error: a dotted key, what is wrong with it, and a suggestion."""

    where: str
    what: str
    next_step: str = ""


class ConfigError(UsageError):
    """All errors of one configuration file at once (exit code 2)."""

    kind = "configuration"

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        """Collect the problems of ``file``; ``where`` is the file, each problem has its key."""
        count = len(problems)
        noun = "error" if count == 1 else "errors"
        super().__init__(f"{count} {noun} in {file}", where=file)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        lines = [f"{p.where}: {p.what}" + (f" ({p.next_step})" if p.next_step else "")
                 for p in self.problems]
        return "\n".join([self.what, *lines])


class LockError(SparkyardError):
    """A lock is missing, stale or damaged, or a cell cannot be resolved (exit code 3)."""

    exit_code = 3
    kind = "lock"


class NetworkError(SparkyardError):
    """An index, registry or file server did not answer as it should (exit code 4)."""

    exit_code = 4
    kind = "network"


class IntegrityError(NetworkError):
    """Bytes differ from the lock (exit code 4): shows both digests, aligned."""

    kind = "integrity"

    def __init__(self, subject: str, *, expected: str, actual: str, next_step: str = "") -> None:
        """Name the file whose digest or size is ``actual`` where ``expected`` is locked."""
        super().__init__(
            f"{subject} differs from the lock\n  expected {expected}\n  actual   {actual}",
            where=subject,
            next_step=next_step or "fetch again; if it stays so, the source serves other bytes",
        )
        self.expected = expected
        self.actual = actual


class EngineError(SparkyardError):
    """Docker engine, buildx or emulation is missing, broken or full (exit code 5)."""

    exit_code = 5
    kind = "engine"


class PatchError(SparkyardError):
    """A required patch cannot be had or does not apply (exit code 6)."""

    exit_code = 6
    kind = "patch"


class DiskError(EngineError):
    """Not enough free disk for the stage that was about to start (exit code 5)."""

    kind = "disk"


class InternalError(SparkyardError):
    """A fault of ours that nobody foresaw (exit code 7); the details are in a file."""

    exit_code = 7
    kind = "internal"


INTERRUPTED_EXIT_CODE = 130
