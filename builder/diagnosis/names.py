"""Every name that this project gives to a failure: the gate's codes and the known issues.

A failure that both can see has one name. F-numbers are old aliases; one may stand for several.
"""

from __future__ import annotations

from dataclasses import dataclass

from builder.config_file import suggestion
from builder.diagnosis.catalogue import load
from builder.errors import UsageError, command
from builder.gate.explain import explanations


@dataclass(frozen=True)
class Explained:
    """What a name means: for the gate, in a log, or both."""

    name: str
    aliases: tuple[str, ...]
    seen_by: str
    meaning: str
    remedy: str
    links: tuple[str, ...] = ()

    def __str__(self) -> str:
        alias = f" ({', '.join(self.aliases)})" if self.aliases else ""
        see = "".join(f"\n  see:     {link}" for link in self.links)
        return (f"{self.name}{alias}, {self.seen_by}\n  meaning: {self.meaning}\n"
                f"  remedy:  {self.remedy}{see}")


def explain(name: str) -> tuple[Explained, ...]:
    """Return what a name or an alias means; raises UsageError for one that nobody knows."""
    entries = all_names()
    wanted = name.strip().lower()
    hits = tuple(entry for entry in entries
                 if wanted and (wanted == entry.name or wanted.upper() in entry.aliases))
    if not hits:
        raise UsageError(f'no failure is called "{name}"', where="--explain",
                         next_step=suggestion(wanted, sorted({entry.name for entry in entries}))
                         or f"see {command('diagnose', '--list')}")
    return hits


def all_names() -> tuple[Explained, ...]:
    """Return every name, those of the gate first."""
    gate = (Explained(code.value, entry.aliases, "found by the gate",
                      f"{entry.title}. {entry.meaning}", entry.remedy)
            for code, entry in explanations().items())
    issues = (Explained(issue.name, (issue.alias,) if issue.alias else (),
                        "named from a log or a failed check", issue.cause, issue.remedy,
                        issue.links) for issue in load().issues)
    reported = (Explained(entry.name, (), "reported by owners; no line of a log proves it",
                          f"{entry.symptom}: {'' if entry.confirmed else 'likely '}{entry.cause}",
                          entry.remedy, entry.links) for entry in load().reported)
    return (*gate, *issues, *reported)
